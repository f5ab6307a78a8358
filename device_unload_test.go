package ggml_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// inChild runs a test alone in a separate process, in which child is true. prefix is a shell
// command to run before it.
func inChild(t *testing.T, prefix string) (child bool, out string) {
	const env = "GOGGML_TEST_CHILD"
	if os.Getenv(env) == t.Name() {
		return true, ""
	}
	self := need.Value(os.Executable())(t)
	p := exec.Command("sh", "-c", prefix+` exec "$0" "$@"`, self, "-test.run=^"+t.Name()+"$", "-test.v")
	p.Env = append(os.Environ(), env+"="+t.Name())
	text, err := p.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return false, string(text)
}

// The CPU can be unloaded, too: errors then say how to load it again.
func TestUnloadCPU(t *testing.T) {
	if child, _ := inChild(t, ""); !child {
		return
	}
	r := need.Value(ggml.CPURegistry())(t)
	old := optest.CPU(t)
	require.NoError(t, r.Unload())
	_, err := ggml.NewCPUBackend(1)
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, "LoadBackends restores backends that Unload has removed")
	_, err = ggml.DeviceByName(old.Name())
	require.ErrorIs(t, err, ggml.ErrNotLoaded, "only the caller loads again")

	require.NoError(t, ggml.LoadBackends())
	b := need.Value(ggml.NewCPUBackend(1))(t)
	require.NoError(t, b.Close())
	require.Equal(t, old.Name(), optest.CPU(t).Name())
	before := need.Value(ggml.Devices())(t)
	require.NoError(t, ggml.LoadBackends())
	after := need.Value(ggml.Devices())(t)
	require.Len(t, after, len(before))
}

// If no file can be opened, the error does not ask to install anything.
func TestLoadWithoutDescriptors(t *testing.T) {
	child, out := inChild(t, "")
	if !child {
		require.Contains(t, out, "plugins cannot be opened: open /dev/null: too many open files; raise the limit of open files")
		return
	}
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	err := ggml.LoadBackends()
	for _, f := range files {
		f.Close()
	}
	fmt.Println(err)
}
