package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/pages"
)

// root is the folder of the repository.
const root = "../.."

func TestPages(t *testing.T) {
	pages.CheckSection(t, filepath.Join(root, "docs", "flags.md"), "finetune", newCommandLine(t).parser.Manual())
	pages.Check(t, filepath.Join(root, "docs", "familiar.md"), familiarPage(t))
}

// familiarPage tests command lines from the documentation of other trainers, with the paths of model and data
// replaced. It shows whether they work, or the error.
func familiarPage(t *testing.T) string {
	text := need.Value(os.ReadFile(filepath.Join("testdata", "familiar", "lines.txt")))(t)
	var page strings.Builder
	works, lines := 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok {
			fmt.Fprintf(&page, "\n## %s\n", title)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		notes, err := familiar(line)
		lines++
		fmt.Fprintf(&page, "\n    %s\n\n", line)
		if err == nil {
			works++
			fmt.Fprintln(&page, "Works.")
		} else {
			fmt.Fprintf(&page, "Refused:\n\n    %s\n", strings.ReplaceAll(err.Error(), "\n", "\n    "))
		}
		if err == nil && notes != "" {
			fmt.Fprintf(&page, "It says:\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(notes), "\n", "\n    "))
		}
	}
	return fmt.Sprintf("# Command lines of other trainers\n\nTen each from the documentation of mlx-lm, TRL, LLaMA-Factory and Unsloth, and two of TRL's GKD trainer, with the paths of model, data and files changed, and the name of the program: %d of %d work. "+
		"The others say what is called what here. Here flags are read, and neither model nor data: a `template`, for example, is compared with the model when it trains, and `bf16` with the processor. Written by `scripts/pages`.\n%s", works, lines, page.String())
}

// programsHere maps programs of other trainers to the commands here.
var programsHere = [][2]string{
	{"mlx_lm.lora ", "finetune "}, {"mlx_lm.generate ", "finetune chat "},
	{"python trl/experimental/gkd/gkd.py ", "finetune "}, {"trl sft ", "finetune "}, {"python trl/scripts/sft.py ", "finetune "},
	{"llamafactory-cli train ", "finetune train "}, {"llamafactory-cli export ", "finetune merge "},
	{"python unsloth-cli.py ", "finetune "}, {"unsloth train ", "finetune train "},
}

// familiar parses a command line of another trainer, and returns what is rejected or noted.
func familiar(line string) (notes string, err error) {
	for _, p := range programsHere {
		line = strings.Replace(line, p[0], p[1], 1)
	}
	var p program
	var told bytes.Buffer
	parser := cli.New("finetune", &p, defaults.Vars(), kong.Writers(io.Discard, &told))
	parsed, err := parser.Parse(strings.Fields(strings.TrimPrefix(line, "finetune ")))
	if err == nil && parsed.Command() == "train" {
		err = p.Train.check()
	}
	return told.String(), err
}
