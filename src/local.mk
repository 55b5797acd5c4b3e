# src: the daemon itself; the only home of getdns.
