package ggml_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
)

func TestVersionOfLibrary(t *testing.T) {
	require.NoError(t, testhook.CheckVersion(ggml.Version()))
	minimum := need.Value(testhook.MinimumVersion())(t)
	require.Regexp(t, `^\d+\.\d+\.\d+$`, minimum)
	for _, v := range []string{minimum, minimum + "-dev", "1.0.100", "1.10", "10.0.1"} {
		require.NoError(t, testhook.CheckVersion(v), v)
	}
	for _, v := range []string{"0.9.11", "0.99.9", "0.99.9-dirty", "0", ""} {
		require.ErrorContains(t, testhook.CheckVersion(v), "the installed ggml is version "+v+", but this program needs "+minimum+" or newer: run scripts/vendor", v)
	}
}

// The message of csrc/check.h names the same minimum; the preprocessor cannot read the number.
func TestMinimumInHeaderCheck(t *testing.T) {
	minimum := need.Value(testhook.MinimumVersion())(t)
	check := need.Value(os.ReadFile("csrc/check.h"))(t)
	require.Contains(t, string(check), "install ggml "+minimum+" or newer")
	require.Contains(t, string(check), "ggml is older than "+minimum)
}

// A build without ggml names a command that works in its place: in a clone, and in a copy of the
// module without scripts.
func TestMissingHeaders(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler by the name cc")
	}
	check := need.Value(os.ReadFile("csrc/check.h"))(t)
	for _, c := range []struct{ script, header, want string }{
		{"scripts/vendor", "", "ggml is missing: run scripts/vendor in this clone of goggml"},
		{"none", "", `ggml is missing: run git clone https://github.com/goggml/ggml goggml && goggml/scripts/vendor && eval \"$(goggml/scripts/env --consumer)\" in this shell`},
		{"scripts/vendor", "ggml.h", "ggml is older than 1.0.0: run scripts/vendor in this clone of goggml"},
		{"none", "ggml.h", "ggml is older than 1.0.0: run git clone https://github.com/goggml/ggml goggml &&"},
	} {
		folder := t.TempDir()
		files := map[string][]byte{"csrc/check.h": check, c.script: nil}
		if c.header != "" {
			files["include/"+c.header], files["include/ggml-rpc.h"] = nil, nil
		}
		for name, text := range files {
			path := filepath.Join(folder, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		command := exec.Command(compiler, "-E", "-I", filepath.Join(folder, "include"), filepath.Join(folder, "csrc", "check.h"))
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // with no path to ggml
		out, err := command.CombinedOutput()
		if err == nil {
			t.Skip("the system has a ggml")
		}
		require.Contains(t, string(out), c.want)
	}
}

// If the platform is unsupported, the go command reports it before compiling anything.
func TestUnsupportedBuilds(t *testing.T) {
	for env, want := range map[string]string{
		"GOOS=windows": "ggml_does_not_run_on_Windows__build_it_in_WSL_2 (", "CGO_ENABLED=0": "ggml_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_1 (",
	} {
		command := exec.Command("go", "list", ".")
		command.Env = append(os.Environ(), env)
		out, err := command.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), want)
	}
}
