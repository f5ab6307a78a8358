package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/filelink"
)

// A section is a table of the page, to which parts add rows.
type section struct {
	title, text string
	columns     []string
}

const (
	cardSection     = "What the card does"
	trainSection    = "Training"
	generateSection = "Generation"
	lossSection     = "Losses"
	opsSection      = "Ops"
	torchSection    = "PyTorch"
)

var sections = []section{
	{cardSection, "A product of ggml on the device, and a copy of it: the most that the rest can reach.", []string{"device", "what", "speed"}},
	{trainSection, "Steps of LoRA (rank 8, all linear layers) of random weights, the median of all after the first. The share is of the product in BF16 above: of 4 operations " +
		"for each weight and token, and 6 for each layer, token before and width of attention. Predicted is what the graph would take within the limits of this card, by `internal/test/gpucost`.",
		[]string{"model", "base", "context × rows", "tokens/s", "share, %", "predicted, tokens/s", "memory, GB", "loss"}},
	{generateSection, "Prefill of 512 tokens and decode of 64, tokens/s, beside llama-bench on the same file and device, caches in F16.",
		[]string{"model", "base", "what", "tokens/s", "llama-bench", "ratio"}},
	{lossSection, "Losses of 50 steps of a small model on the device, beside the losses on the CPU by this project's kernels in F32, with TF32 turned off.",
		[]string{"device", "base", "first loss", "last loss", "largest difference"}},
	{opsSection, "Tests of ggml's own test-backend-ops, which compares with the CPU, of the ops of training.", []string{"device", "op", "passed"}},
	{torchSection, "PyTorch on the same card: its product of 8192³, and PEFT's LoRA of rank 8 on the same shapes in BF16.",
		[]string{"model", "what", "context × rows", "speed", "share, %", "memory, GB"}},
}

// A page has the results so far.
type page struct {
	facts [][2]string
	short bool
	began time.Time
	rows  map[string][][]string // by section
	notes map[string][]string
}

func (p *page) add(of part, row []string) {
	if p.rows == nil {
		p.rows = map[string][][]string{}
	}
	p.rows[of.section] = append(p.rows[of.section], row)
}

func (p *page) note(of part, text string) {
	if p.notes == nil {
		p.notes = map[string][]string{}
	}
	p.notes[of.section] = append(p.notes[of.section], fmt.Sprintf("%s: %s", of.name, text))
}

func (p *page) String() string {
	var b strings.Builder
	form := ""
	if p.short {
		form = " -short"
	}
	fmt.Fprintf(&b, "# On a GPU\n\nMade by `scripts/gpu-check run%s`, on\n\n|  |  |\n| --- | --- |\n", form)
	for _, f := range append(p.facts, [2]string{"date", p.began.UTC().Format(time.DateOnly)}, [2]string{"duration", time.Since(p.began).Round(time.Second).String()}) {
		fmt.Fprintf(&b, "| %s | %s |\n", f[0], escaped(f[1]))
	}
	for _, s := range sections {
		rows, notes := p.rows[s.title], p.notes[s.title]
		if len(rows)+len(notes) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.title, s.text)
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(s.columns, " | "), strings.Repeat(" --- |", len(s.columns)))
		}
		for _, row := range rows {
			for i := range row {
				row[i] = escaped(row[i])
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		if len(notes) > 0 {
			fmt.Fprintln(&b)
		}
		for _, note := range notes {
			fmt.Fprintf(&b, "- %s\n", note)
		}
	}
	return b.String()
}

// escaped escapes text for a cell.
func escaped(text string) string { return strings.ReplaceAll(text, "|", "¦") }

// write replaces the page.
func (p *page) write(file string) error { return filelink.Replace(file, []byte(p.String())) }
