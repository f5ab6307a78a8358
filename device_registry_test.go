package ggml_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/rpc"
)

func TestRegistryByName(t *testing.T) {
	r := need.Value(ggml.RegistryByName("cpu"))(t)
	require.Equal(t, "CPU", r.Name())
	require.NotEmpty(t, r.Devices())
	_, err := ggml.RegistryByName("Abacus")
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, `backend "Abacus"`)
	require.ErrorContains(t, err, "CPU")
	b := need.Value(ggml.NewBackendByName("CPU"))(t)
	b.Close()
	b = need.Value(ggml.NewBackendByType(ggml.CPU))(t)
	b.Close()
	_, err = ggml.NewBackendByName("Abacus0")
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	_, err = ggml.NewBackendByType(ggml.DeviceType(99))
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
}

func TestLoadBackendsFrom(t *testing.T) {
	require.ErrorContains(t, ggml.LoadBackendsFrom("no such folder"), "no such file")
	require.ErrorContains(t, ggml.LoadBackendsFrom("go.mod"), "go.mod is not a folder")
	require.NoError(t, ggml.LoadBackendsFrom(t.TempDir())) // an empty folder
}

// Errors of missing backends say how to get them.
func TestBackendsOfOtherMachines(t *testing.T) {
	for name, find := range map[string]func() error{
		"CUDA":   func() error { _, err := ggml.CUDADevices(); return err },
		"Vulkan": func() error { b, err := ggml.NewVulkanBackend(0); return errors.Join(err, b.Close()) },
		"MTL":    func() error { _, err := ggml.NewMetalBackend(); return err },
		"BLAS":   func() error { _, err := ggml.BLASDevice(); return err },
	} {
		if r, err := ggml.RegistryByName(name); err == nil && len(r.Devices()) > 0 {
			require.NoError(t, find(), name)
			continue
		}
		err := find()
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
		require.Regexp(t, "^ggml: "+name+" backend is not loaded: .*(install|run scripts/vendor|it needs)", err.Error())
	}
	b := optest.NewCPUBackend(t, 1)
	require.ErrorIs(t, b.CaptureMetal(), ggml.ErrNotLoaded)
	_, err := b.MetalFamily(7)
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	if _, err := ggml.VulkanDevices(); err != nil {
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
	}
	if _, err := ggml.CUDADevices(); err != nil {
		_, err = ggml.PinForCUDA(make([]byte, 10))
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
	}
}

func TestBLAS(t *testing.T) {
	b, err := ggml.NewBLASBackend(1)
	if err != nil {
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
		t.Skip("the BLAS plugin is not installed")
	}
	defer b.Close()
	require.True(t, b.IsBLAS())
	require.Equal(t, ggml.Accelerator, b.Device().Type())
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 64, 64)
	require.True(t, b.Device().SupportsOp(c.MulMat(x, x)))
	require.False(t, b.Device().SupportsOp(c.Silu(x)))
	require.False(t, b.Device().OffloadsOp(c.MulMat(x, x)))
	require.ErrorContains(t, rpc.Serve(t.Context(), "127.0.0.1:50052", rpc.Options{}, b.Device()),
		"BLAS assists the CPU and computes few ops; clients need a device that computes all ops")
	_, err = ggml.NewBLASBackend(-1)
	require.ErrorContains(t, err, "-1 threads")
}

func TestMissingBackends(t *testing.T) {
	_, err := ggml.LoadBackend(filepath.Join(t.TempDir(), "libggml-none.so"))
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorIs(t, err, os.ErrNotExist)

	captureLog(t)
	garbage := filepath.Join(t.TempDir(), "libggml-garbage.so")
	require.NoError(t, os.WriteFile(garbage, []byte("no library"), 0o600))
	_, err = ggml.LoadBackend(garbage)
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, "libggml-garbage.so")

	_, err = ggml.DeviceByName("nope")
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, `ggml: device "nope": backend is not loaded; the devices are `)
	require.ErrorContains(t, err, "CPU")

	_, err = ggml.NewCPUBackend(-1)
	require.ErrorContains(t, err, "ggml: -1 threads: a backend takes 1 to ")
}
