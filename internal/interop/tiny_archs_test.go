//go:build interop

package interop

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// writeGolden writes numbers of stock llama.cpp, compressed.
func writeGolden(t *testing.T, path string, numbers []float32) {
	t.Helper()
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	require.NoError(t, binary.Write(zip, binary.LittleEndian, numbers))
	require.NoError(t, zip.Close())
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o644))
}

// TestInteropTinyArchitectures compares the references in testdata with stock llama.cpp. GOGGML_GOLDEN names
// the folder to which it writes them.
func TestInteropTinyArchitectures(t *testing.T) {
	for _, name := range llmtest.StockArchitectures() {
		t.Run(name, func(t *testing.T) {
			rows := stockLogits(t, llmtest.StockArchFile(t, name), llmtest.ArchTokens())
			logits := slices.Concat(rows...)
			if folder := os.Getenv("GOGGML_GOLDEN"); folder != "" {
				writeGolden(t, filepath.Join(folder, "logits-arch-"+name+".gz"), logits)
				return
			}
			require.Less(t, refmath.NMSE(llmtest.GoldenLogits(t, "arch-"+name), refmath.From(logits).Data), 1e-10, name)
		})
	}
}
