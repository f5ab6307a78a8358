//go:build race

package ggml_test

func init() { raceDetector = true }
