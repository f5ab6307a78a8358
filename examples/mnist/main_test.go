package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"mnist": main})
}

func TestScripts(t *testing.T) {
	clitest.RunScripts(t, testscript.Params{Dir: "testdata/script", ContinueOnError: true})
}

func small(network string) program {
	p := program{Network: network, DrawTrain: 2500, DrawTest: 500, Epochs: 6, Batch: 50, Rate: 0.003, Seed: 1, Threads: 1}
	if network == "cnn" { // slower, but it needs fewer samples
		p.DrawTrain, p.DrawTest, p.Epochs, p.Batch, p.Rate = 800, 300, 5, 25, 0.005
	}
	return p
}

func TestTrainSaveLoad(t *testing.T) {
	need.Time(t, "trains for ten seconds")
	for network := range kinds {
		t.Run(network, func(t *testing.T) {
			p := small(network)
			p.Save = filepath.Join(t.TempDir(), "digits.gguf")
			var out bytes.Buffer
			accuracy := need.Value(p.run(t.Context(), &out))(t)
			require.Greater(t, accuracy, 0.85, out.String())
			require.Contains(t, out.String(), fmt.Sprintf("epoch %d of %[1]d", p.Epochs))

			q := small(network)
			q.Load, q.Epochs = p.Save, 0
			again := need.Value(q.run(t.Context(), io.Discard))(t)
			require.Equal(t, accuracy, again)

			q.Seed = 2
			other := need.Value(q.run(t.Context(), io.Discard))(t)
			require.NotEqual(t, accuracy, other, "other digits")
			require.Empty(t, ggml.OpenObjects())
		})
	}
}

// The program's default settings.
func TestReadsNearlyAll(t *testing.T) {
	need.Time(t, "trains for two seconds")
	var p program
	parser := need.Value(kong.New(&p, networkNames()))(t)
	_, err := parser.Parse(nil)
	require.NoError(t, err)
	var out bytes.Buffer
	accuracy := need.Value(p.run(t.Context(), &out))(t)
	require.GreaterOrEqual(t, accuracy, 0.97, out.String())
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := small("mlp")
	_, err := p.run(ctx, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, ggml.OpenObjects())
}

func TestDrawnDigitsAreReproducible(t *testing.T) {
	a, b := drawSet(50, 7), drawSet(50, 7)
	require.Equal(t, a, b)
	require.NotEqual(t, a, drawSet(50, 8))
	for i, x := range a.images {
		require.True(t, x >= 0 && x <= 1, "pixel %d is %v", i, x)
	}
	for d, hands := range glyphs {
		for _, rows := range hands {
			for _, row := range rows {
				require.Len(t, row, 7, "digit %d", d)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(p *program){
		"fewer digits":  func(p *program) { p.DrawTest = 20 },
		"--data":        func(p *program) { p.Data = t.TempDir() },
		"--load":        func(p *program) { p.Load = filepath.Join(t.TempDir(), "none.gguf") },
		"no tensor fc1": func(p *program) { p.Load = otherGGUF(t) },
		"--save none/x.gguf cannot be written: folder none: no such file": func(p *program) { p.Save, p.DrawTrain = "none/x.gguf", 1_000_000 },
	} {
		p := small("mlp")
		change(&p)
		_, err := p.run(t.Context(), io.Discard)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, ggml.OpenObjects())
}

func otherGGUF(t *testing.T) string {
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, g.Set("mnist.kind", "mlp"))
	path := filepath.Join(t.TempDir(), "other.gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

func writeIDX(t *testing.T, path string, data []byte, sizes ...uint32) {
	b := []byte{0, 0, 8, byte(len(sizes))}
	for _, n := range sizes {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	require.NoError(t, os.WriteFile(path, append(b, data...), 0o600))
}

func TestReadsIDX(t *testing.T) {
	need.Time(t, "trains for a second")
	p := small("mlp")
	p.Data = t.TempDir()
	for prefix, n := range map[string]int{"train": 2510, "t10k": 500} {
		s := drawSet(n, uint64(n))
		raw := make([]byte, len(s.images))
		for i, x := range s.images {
			raw[i] = byte(255*x + 0.5)
		}
		writeIDX(t, filepath.Join(p.Data, prefix+"-images-idx3-ubyte"), raw, uint32(n), side, side)
		writeIDX(t, filepath.Join(p.Data, prefix+"-labels-idx1-ubyte"), s.labels, uint32(n))
		got := need.Value(readSet(p.Data, prefix))(t)
		require.Equal(t, s.labels, got.labels)
		require.InDeltaSlice(t, s.images, got.images, 1.0/500)
	}
	var out bytes.Buffer
	accuracy := need.Value(p.run(t.Context(), &out))(t)
	require.Greater(t, accuracy, 0.85)
	require.Contains(t, out.String(), "left out 10 digits")

	labels := filepath.Join(p.Data, "t10k-labels-idx1-ubyte")
	writeIDX(t, labels, []byte{1, 2, 3}, 3)
	_, err := p.run(t.Context(), io.Discard)
	require.ErrorContains(t, err, "has 500 images, but "+labels+" has 3 labels")
	bad := make([]byte, 500)
	bad[7] = 10
	writeIDX(t, labels, bad, 500)
	_, err = p.run(t.Context(), io.Discard)
	require.ErrorContains(t, err, "label 7 is 10")
}

func TestParseIDXRefuses(t *testing.T) {
	for name, k := range map[string]struct {
		file string
		want string
	}{
		"empty":      {"", "shorter than the header"},
		"gzip":       {"\x1f\x8b\x08\x00", "gunzip"},
		"other":      {"GGUF", "not an IDX file"},
		"floats":     {"\x00\x00\x0d\x02", "type 0x0d"},
		"dimensions": {"\x00\x00\x08\x01\x00\x00\x00\x01", "has 1 dimension; it must have 2"},
		"header":     {"\x00\x00\x08\x02\x00\x00\x00\x01", "ends within its header"},
		"size":       {"\x00\x00\x08\x02\x00\x00\x00\x01\x00\x00\x00\x03123", "dimension 1 has the size 3; it must be 2"},
		"short":      {"\x00\x00\x08\x02\xff\xff\xff\xff\x00\x00\x00\x02123", "expected 8589934590 bytes"},
		"long":       {"\x00\x00\x08\x02\x00\x00\x00\x01\x00\x00\x00\x02123", "expected 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseIDX(bytes.NewReader([]byte(k.file)), []int{2})
			require.ErrorContains(t, err, k.want)
		})
	}
}

// Numeric flags accept or reject 0, -1, the largest number, NaN and infinity; -v prints the results.
func TestNumbers(t *testing.T) {
	require.GreaterOrEqual(t, clitest.Numbers(t, "mnist", new(program), networkNames()), 7)
}
