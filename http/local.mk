# http
