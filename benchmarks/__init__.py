"""Side-by-side measurements (`make bench`): what a hop costs in ours, in stock mitmdump and in squid ssl-bump, and
how fast a URL becomes text.

stage.py     one TLS origin and one DNS server in processes of their own, a private CA, a scratch folder
proxies.py   the three proxies as processes, each told the same policy in its own words
load.py      the load: a process of its own, a fixed count of requests over a fixed number of connections
cpu.py       CPU time of a process and its descendants, from /proc
rounds.py    interleaved rounds and their medians
pages/       whole pages through daemon and gateway, beside trafilatura and mcp-server-fetch
micro.py     admission and address check under `timeit`
report.py    the tables, the expectations, the JSON file

CPU milliseconds a hop are the figure to compare: requests a second also tell how busy the machine is otherwise.
"""
