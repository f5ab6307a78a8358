package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// printVersion prints what a bug report should include.
func printVersion(w io.Writer, program string) {
	fmt.Fprintf(w, "%s %s, %s %s/%s\n", program, buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "ggml %s, devices: %s\n", ggml.Version(), deviceNames())
	library, err := kernels.GEMMLibrary()
	switch {
	case err != nil:
		library = err.Error()
	case library == "":
		library = "none was found"
	}
	fmt.Fprintf(w, "GEMM library: %s\n", library)
}

// buildVersion returns the version of the module, or its commit.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "development " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "development"
}

func deviceNames() string {
	devices, err := ggml.Devices()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name())
	}
	return strings.Join(names, ", ")
}
