"""What an installation is made of while it runs, below the faces that show it and the root that puts it together.

gateway_process  the gateway as a process of ours, and how to reach one that runs
run_state        the state directory: who owns it, its secrets, and run.json, which says what runs
serving          ASGI applications on sockets of ours
client_places    a bound on connections, and who makes room
tools_tls        the certificates that our listeners show
client_files     the authority, in the forms that clients take
reloading        another version of the rules, everywhere or nowhere
health           whether everything that is needed is well
audit_keeping    old chains of the log
audit_output     the log on standard output
service_manager  what systemd is told
"""
