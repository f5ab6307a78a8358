package ggml_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
)

// compilePlugin makes a library in place of a plugin; needs, if not empty, is a dependency that is
// then removed.
func compilePlugin(t *testing.T, plugin, needs string) {
	t.Helper()
	env := need.Value(exec.Command("go", "env", "CC").Output())(t)
	folder := filepath.Dir(plugin)
	source := filepath.Join(folder, "empty.c")
	require.NoError(t, os.WriteFile(source, []byte("int nothing;\n"), 0o600))
	compile := func(args ...string) {
		command := append(strings.Fields(string(env)), append([]string{"-shared", "-fPIC", source}, args...)...)
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", command, out)
	}
	if needs == "" {
		compile("-o", plugin)
		return
	}
	library := filepath.Join(folder, needs)
	compile("-Wl,-soname,"+needs, "-o", library)
	compile("-Wl,--no-as-needed", library, "-o", plugin)
	require.NoError(t, os.Remove(library))
}

// setForTest changes a hook until the test ends.
func setForTest[T any](t *testing.T, hook *T, value T) {
	before := *hook
	*hook = value
	t.Cleanup(func() { *hook = before })
}

// The error names what a backend lacks: its plugin, a library of its plugin, the driver or the GPU.
func TestMissingPlugin(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("these are the plugins of Linux")
	}
	require.NoError(t, ggml.LoadBackends())
	for name, c := range map[string]struct{ plugin, needs, want string }{
		"none":        {"", "", `ggml has no plugin for it; (run scripts/vendor --gpu cuda|install it \(Debian, Ubuntu: apt-get install libggml1-backend-cuda\))$`},
		"no driver":   {"libggml-cuda.so", "libcuda.so.stand-in", `its plugin cannot be opened: libcuda\.so\.stand-in: .*; it needs an NVIDIA GPU with its driver: nvidia-smi lists them$`},
		"no library":  {"libggml-cuda.so", "libcudart.so.stand-in", `its plugin cannot be opened: libcudart\.so\.stand-in: .*; (run scripts/vendor --gpu cuda|install it .*)$`},
		"no GPU":      {"libggml-cuda.so", "", `its plugin finds no device; it needs an NVIDIA GPU with its driver: nvidia-smi lists them$`},
		"not plugins": {"libggml-vulkan.so", "", `ggml has no plugin for it; `},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if c.plugin != "" {
				compilePlugin(t, filepath.Join(folder, c.plugin), c.needs)
			}
			setForTest(t, &testhook.PluginFolders, func([]string) []string { return []string{folder} })
			_, err := ggml.CUDADevices()
			if err == nil {
				t.Skip("this machine has an NVIDIA GPU")
			}
			require.ErrorIs(t, err, ggml.ErrNotLoaded)
			require.Regexp(t, `^ggml: CUDA backend is not loaded: `+c.want, err.Error())
			require.NotContains(t, err.Error(), "\n")

			// A build tag that requires the backend reports the same.
			demanded := testhook.CheckBuildTags(map[string]string{"cuda": "CUDA"})
			require.ErrorIs(t, demanded, ggml.ErrNotLoaded)
			require.EqualError(t, demanded, err.Error()+"; the program was built with the tag cuda, which requires it: without the tag it runs on the CPU")
		})
	}
	require.NoError(t, testhook.CheckBuildTags(nil))
	err := testhook.CheckBuildTags(map[string]string{"metal": "MTL"})
	require.EqualError(t, err, "ggml: MTL backend is not loaded: it is only for Apple's GPUs, on macOS (brew install ggml); use CUDA or Vulkan on other systems; "+
		"the program was built with the tag metal, which requires it: without the tag it runs on the CPU")
}

func TestUnusedGPU(t *testing.T) {
	devices := need.Value(ggml.Devices())(t)
	for _, d := range devices {
		if (d.Type() == ggml.GPU || d.Type() == ggml.IntegratedGPU) && !strings.HasPrefix(d.Registry().Name(), "RPC") {
			require.Empty(t, ggml.UnusedGPU())
			t.Skip("ggml uses a GPU here")
		}
	}
	setForTest(t, &testhook.PluginFolders, func([]string) []string { return nil })
	setForTest(t, &testhook.System, fs.FS(fstest.MapFS{}))
	require.Empty(t, ggml.UnusedGPU())
	setForTest(t, &testhook.System, fs.FS(fstest.MapFS{"dev/nvidiactl": {}, "usr/local/nvidia/lib64/libcuda.so.1": {}}))
	require.Regexp(t, `^this machine has a driver for an NVIDIA GPU, and ggml does not use it: CUDA: ggml has no plugin for it; .*$`, ggml.UnusedGPU())
	setForTest(t, &testhook.System, fs.FS(fstest.MapFS{
		"sys/class/drm/renderD128/device/uevent": {Data: []byte("DRIVER=amdgpu\n")}, "usr/share/vulkan/icd.d/radeon_icd.x86_64.json": {},
	}))
	require.Regexp(t, `^this machine has a driver for an AMD GPU, and ggml does not use it: Vulkan: ggml has no plugin for it; .*$`, ggml.UnusedGPU())
}
