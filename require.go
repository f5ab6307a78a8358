package ggml

// required lists the backends that build tags require, by tag; onlyCPU is set by the tag cpu.
// Nothing else is here, so that make lint can check the files of the tags without the package.
var (
	required = map[string]string{}
	onlyCPU  bool
)
