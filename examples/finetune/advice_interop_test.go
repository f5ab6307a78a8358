//go:build interop

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
)

// flagLine matches a line of llama.cpp's help: names, and the form of the value.
var flagLine = regexp.MustCompile(`^((?:-[^\s,]+(?:,\s+)?)+)(?: (\S+(?: \S+)*?))?(?:\s{2,}.*)?$`)

var update = flag.Bool("update", false, "write the flags of llama.cpp's programs anew")

// The stand-ins of llama.cpp's programs know exactly the programs' flags; -update rewrites their lists.
func TestInteropStockFlags(t *testing.T) {
	for _, program := range []string{"llama-cli", "llama-completion"} {
		help := need.Value(exec.Command(stockRun, program, "--help").Output())(t)
		var list strings.Builder
		for line := range strings.Lines(string(help)) {
			m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n "))
			if m == nil || strings.HasPrefix(line, "-----") {
				continue
			}
			list.WriteString(strings.Join(strings.Fields(strings.ReplaceAll(m[1], ",", " ")), " "))
			if m[2] != "" {
				list.WriteString(" =" + m[2])
			}
			list.WriteString("\n")
		}
		path := filepath.Join("..", "internal", "clitest", "stock", program+".txt")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(list.String()), 0o666))
		}
		known := need.Value(os.ReadFile(path))(t)
		require.Equal(t, list.String(), string(known))
	}
}

// stockRun starts programs of llama.cpp.
var stockRun = filepath.Join(root, "build", "llamacpp", "run")

// llama.cpp runs the command lines that a run advises for it.
func TestInteropAdvice(t *testing.T) {
	run := need.Value(filepath.Abs(stockRun))(t)
	t.Setenv(clitest.StockRun, run)
	params := scripts(t)
	params.Dir, params.Files = "", []string{"testdata/script/use.txtar"}
	clitest.RunScripts(t, params)
}
