#!/bin/sh
# An agent on this machine in a network of its own, whose only way out is the gateway. Needs root, iproute2, nftables.
#
#   namespace.sh up NAME [NUMBER]        make it; the machine is 172.31.231.1 there, the agent 172.31.231.2
#   namespace.sh run NAME USER COMMAND…  run a command as USER in it, without any privilege
#   namespace.sh down NAME               remove it
#
# NUMBER, 0 to 63, tells several apart: the addresses are 172.31.231.(4 x NUMBER + 1) and + 2. The gateway's
# configuration has the first as an address to listen at, and the second among the agent's sources.
set -eu

fail() {
    echo "namespace.sh: $*" >&2
    exit 2
}

up() {
    number=${1:-0}
    case "$number" in
    [0-9] | [1-5][0-9] | 6[0-3]) ;;
    *) fail 'NUMBER is from 0 to 63' ;;
    esac
    here=172.31.231.$((4 * number + 1))
    agent=172.31.231.$((4 * number + 2))

    [ ! -e "/run/netns/$name" ] || fail "there is a namespace $name already; first: namespace.sh down $name"
    # First of all what holds it in: whatever comes by this wire reaches the gateway and the tools, and nothing else
    # of this machine or behind it. Refused, not dropped, so that clients need not wait.
    nft -f - <<END
table inet $table {
    chain from_agent {
        ip saddr $agent ip daddr $here tcp dport { 3128, 3129 } accept
        meta l4proto tcp reject with tcp reset
        reject
    }
    chain to_this_machine {
        type filter hook input priority filter - 10; policy accept;
        iifname "$wire" jump from_agent
    }
    chain to_others {
        type filter hook forward priority filter - 10; policy accept;
        iifname "$wire" reject
        oifname "$wire" drop
    }
}
END
    ip netns add "$name"
    ip link add "$wire" type veth peer name gateway netns "$name"
    ip address add "$here/30" dev "$wire"
    ip link set "$wire" up
    ip -n "$name" address add "$agent/30" dev gateway
    ip -n "$name" link set lo up
    ip -n "$name" link set gateway up
    # No other route, no IPv6, nobody to ask for names: the gateway looks them up.
    ip netns exec "$name" sh -c 'for all in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
        [ ! -e "$all" ] || echo 1 >"$all"; done'
    mkdir -p "/etc/netns/$name"
    echo 'nameserver 127.0.0.1' >"/etc/netns/$name/resolv.conf"
}

run() {
    [ $# -ge 2 ] || fail 'who runs what: namespace.sh run NAME USER COMMAND…'
    user=$1
    shift
    # /run is hidden: sockets in it lead to other programs' networks, such as the one of a resolver. So are the variables
    # of whoever calls: they are not the agent's to read.
    exec ip netns exec "$name" sh -c 'mount -t tmpfs -o nosuid,nodev,noexec,mode=0755 tmpfs /run && exec "$@"' sh \
        setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        --reset-env --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"
}

down() {
    # The wire first: what still runs in the namespace keeps it, and must not keep a way out of it.
    ip link delete "$wire" || true
    ip netns delete "$name" || true
    nft delete table inet "$table" || true
    rm -rf "/etc/netns/$name"
}

case "${2:-}" in
'' | *[!a-z0-9]* | ?????????*) fail 'NAME is of small letters and digits, eight at most' ;;
esac
verb=$1 name=$2 wire=fetchd-$2 table=fetchd_$2
shift 2
case "$verb" in
up | run | down) "$verb" "$@" ;;
*) fail 'up, run or down' ;;
esac
