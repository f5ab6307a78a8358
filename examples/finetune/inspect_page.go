package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/internal/filelink"
)

//go:embed inspect.html
var inspectPage string

var inspectTemplate = template.Must(template.New("inspect").Parse(inspectPage))

// Percent returns the width of the bar.
func (b bar) Percent() float64 { return 100 * b.Share }

func (r *inspectReport) savePage(path string) error {
	var page bytes.Buffer
	if err := r.writePage(&page); err != nil {
		return err
	}
	if err := filelink.Replace(path, page.Bytes()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	fmt.Fprintln(os.Stderr, "page:", path)
	return nil
}

// writePage writes the report as a self-contained page. It escapes all data.
func (r *inspectReport) writePage(w io.Writer) error {
	type finding struct {
		Name, Text string
		Ruins      bool
	}
	type shown struct {
		Number int
		Place  string
		Chunks []training.Chunk
	}
	page := struct {
		Model, Verdict string
		Files          []string
		Ruined         bool
		Counts         []count
		Bars           []bar
		Findings       []finding
		Samples        []shown
	}{Model: filepath.Base(r.m.Path), Files: r.Files, Verdict: r.verdict(), Ruined: r.Ruined(r.ignored...), Counts: r.counts(), Bars: r.histogram()}
	for _, f := range r.Findings {
		page.Findings = append(page.Findings, finding{f.Name, training.FindingText(f), r.ruins(f)})
	}
	for _, s := range r.Samples {
		page.Samples = append(page.Samples, shown{s.Number + 1, s.Place, training.Chunks(r.m.Tokenizer, s.Sample)})
	}
	return inspectTemplate.Execute(w, page)
}
