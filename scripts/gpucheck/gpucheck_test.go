package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// programKey makes the test binary the program: parts run in separate processes.
const programKey = "GOGGML_GPUCHECK"

func TestMain(m *testing.M) {
	if os.Getenv(programKey) != "" {
		main()
		return
	}
	optest.Main(m)
}

// check runs the program on small models, and returns the page.
func check(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv(programKey, "1")
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, run(context.Background(), append(append(small(t), "-page", page), args...)))
	text := need.Value(os.ReadFile(page))(t)
	return string(text)
}

// small returns flags of a run that takes seconds.
func small(t *testing.T) []string {
	return []string{"-models", t.TempDir(), "-sizes", "tiny", "-bases", "F32,Q4_K", "-contexts", "32,64", "-tokens", "64", "-product", "256"}
}

func requireNoGPU(t *testing.T) {
	t.Helper()
	devices := need.Value(gpus())(t)
	if len(devices) > 0 {
		t.Skip("this machine has a GPU")
	}
}

// A part that fails does not affect the others, and the page shows why each lacks results.
func TestWithoutGPU(t *testing.T) {
	requireNoGPU(t)
	text := check(t, "-only", "card,train-tiny-F32,torch", "-short")
	require.Contains(t, text, "\n# On a GPU\n\nMade by `scripts/gpu-check run -short`, on\n"[1:])
	require.Contains(t, text, "| ggml | "+ggml.Version()+" |\n")
	for _, section := range []string{cardSection, trainSection, torchSection} {
		require.Contains(t, text, "\n## "+section+"\n")
	}
	require.Contains(t, text, "\n- card: exit status 1: ggml: CUDA backend is not loaded: ")
	require.Contains(t, text, "\n- train-tiny-F32: exit status 1: ggml: CUDA backend is not loaded: ")
	require.Contains(t, text, "\n- torch: left out of a short run\n")
}

// No part starts that could exceed the total limit, and a part that exceeds its own limit is stopped.
func TestLimits(t *testing.T) {
	text := check(t, "-only", "losses", "-limit", "1m")
	require.Contains(t, text, "\n- losses: left out: it may take 1m30s, and 0s are over of 1m0s\n")

	t.Setenv(programKey, "1")
	o := need.Value(parse([]string{"-models", t.TempDir()}))(t)
	p := part{name: "losses", limit: time.Millisecond}
	require.EqualError(t, o.start(context.Background(), p, nil, func([]string) {}), "stopped after 1ms")
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"-sizes 2B": `-sizes: there is no model "2B"`, "-contexts 0": `-contexts: "0" is not a length`, "x": `unknown argument "x"; -help lists the flags`,
	} {
		_, err := parse(strings.Fields(args))
		require.EqualError(t, err, want)
	}
	o := need.Value(parse([]string{"-short"}))(t)
	require.Equal(t, []int{512, 4096}, o.contexts)
}

// Measurements on a device with its own memory that every machine has, by ggml's ops: the CPU behind an RPC server without
// kernels.
func TestMeasure(t *testing.T) {
	need.Time(t, "measures for seconds")
	r := need.Value(ggml.AddRPCServer(optest.StartRPCServerWith(t, optest.ServerOptions{Plain: true}).Endpoint))(t)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	name := r.Devices()[0].Name()
	o := need.Value(parse(append(small(t), "-device", name, "-bf16", "1e11", "-bandwidth", "1e10")))(t)
	rows := func(measure func(ctx context.Context, o *options, emit func(row ...string)) error) (text string, err error) {
		var b strings.Builder
		err = measure(t.Context(), o, func(row ...string) { b.WriteString(strings.Join(row, "|") + "\n") })
		return b.String(), err
	}

	card := need.Value(rows(measureCard))(t)
	require.Regexp(t, `^(.*\n)*-bf16\|\d.*\n(.*\n)*`+name+`\|product of 256³ in F32\|[\d.e-]+ TFLOP/s\n-bandwidth\|\d.*\n`+name+`\|copy of .* GB, read and written\|.* GB/s\n$`, card)
	for _, p := range o.parts() {
		if p.name == "train-tiny-F32" {
			training := need.Value(rows(p.measure))(t)
			require.Regexp(t, `^tiny\|F32\|32 × 2\|\d+\|[\d.]+\|\d+\|-?[\d.]+\|6\.\d+\ntiny\|F32\|64 × 1\|.*\n$`, training)
		}
	}
	equal := need.Value(rows(measureLosses))(t)
	require.Regexp(t, `^(`+name+`\|(F32|F16|Q8_0|Q4_K)\|6\.\d+\|[345]\.\d+\|\d\.\de-0[4-9]\n){4}$`, equal)
	generation, err := rows(func(ctx context.Context, o *options, emit func(row ...string)) error {
		return o.measureGeneration(ctx, "tiny", "F32", emit)
	})
	require.EqualError(t, err, "there is no llama-bench here: -programs names its folder")
	require.Regexp(t, `^tiny\|F32\|prefill\|\d+\|–\|\ntiny\|F32\|decode\|\d+\|–\|\n$`, generation)
}

// llama-bench selects GPUs by name, and the CPU as "none".
func TestLlamaBench(t *testing.T) {
	folder := t.TempDir()
	const program = "#!/bin/sh\ncase $* in *'-dev none'*) echo '[{\"n_prompt\": 512, \"avg_ts\": 3}, {\"n_prompt\": 0, \"avg_ts\": 2}]' ;; *) exit 1 ;; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "llama-bench"), []byte(program), 0o700))
	cpu := need.Value(ggml.DeviceByName("CPU"))(t)
	o := need.Value(parse([]string{"-programs", folder}))(t)
	prefill, decode, err := o.llamaBench(t.Context(), cpu, "model.gguf")
	require.NoError(t, err)
	require.Equal(t, []float64{3, 2}, []float64{prefill, decode})
}

// A part in a separate process on Vulkan's software driver, which compiles slowly: make vulkan.
func TestVulkan(t *testing.T) {
	if devices, err := ggml.VulkanDevices(); err != nil || len(devices) == 0 {
		t.Skip("there is no Vulkan device; make vulkan runs this test on the software driver")
	}
	text := check(t, "-only", "train-tiny-F32", "-patience", "20", "-limit", "3h", "-contexts", "32")
	require.Regexp(t, `\n\| tiny \| F32 \| 32 × 2 \| \d+ \| .* \| 6\.\d+ \|\n`, text)
	require.Contains(t, text, "\n| Vulkan0 | ")
}
