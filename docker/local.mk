# docker: the image, and examples of how it is run.
EXTRA_DIST += .dockerignore \
	docker/Dockerfile \
	docker/contained.sh \
	docker/test.sh \
	docker/compose.yaml \
	docker/compose.haproxy.yaml \
	docker/compose.nginx.yaml \
	docker/compose.traefik.yaml \
	docker/haproxy/haproxy.cfg \
	docker/nginx/nginx.conf \
	docker/pith.yaml
