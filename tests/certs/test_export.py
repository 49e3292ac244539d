"""What clients trust, in the forms they take: the same certificates come out of each."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from certs.errors import CertificateAuthorityError
from certs.export import STORE_PASSWORD, ExportForm, render_export
from tests.kit.authorities import Ca

ONE, TWO = Ca("one").certificate, Ca("two").certificate


def test_pem_holds_any_number() -> None:
    assert x509.load_pem_x509_certificates(render_export([ONE, TWO], ExportForm.PEM)) == [ONE, TWO]


def test_der_holds_one_and_says_what_to_do_with_two() -> None:
    assert x509.load_der_x509_certificate(render_export([ONE], ExportForm.DER)) == ONE
    with pytest.raises(CertificateAuthorityError, match="add --only current or --only next, or use pem"):
        render_export([ONE, TWO], ExportForm.DER)


def test_a_trust_store_holds_certificates_alone() -> None:
    store = pkcs12.load_pkcs12(render_export([ONE, TWO], ExportForm.P12), STORE_PASSWORD)

    assert (store.key, store.cert) == (None, None)
    assert [one.certificate for one in store.additional_certs] == [ONE, TWO]
    assert [one.friendly_name for one in store.additional_certs] == [b"fetchd-1", b"fetchd-2"]
