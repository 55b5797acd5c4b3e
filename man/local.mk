# man: every option of the programs and of the configuration.
dist_man_MANS += \
	man/pith.yaml.5 \
	man/pithd.8
