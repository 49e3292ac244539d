"""`python -m proxy_addons.worker`: one worker process, started by the supervisor."""

from proxy_addons.gateway import main

if __name__ == "__main__":
    main()
