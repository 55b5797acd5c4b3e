# tls
