module github.com/goggml/ggml

go 1.24.0

require (
	github.com/dlclark/regexp2 v1.12.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.16.0
	golang.org/x/sys v0.41.0
	pgregory.net/rapid v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
