// A build for Windows ends here with one message, as a build without cgo does (nocgo.go).
package ggml_does_not_run_on_Windows__build_it_in_WSL_2
