package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// A card is the README.md of a run's folder: base model, results, use of the adapter, and how to repeat the
// run.
type card struct {
	Title, Base, Arch string
	Parameters        float64 // millions, in the base model
	AdapterParameters int64
	Adapter, Best     string
	BestStep          int
	BestFigure        string // such as "loss 1.2345"
	Data              string
	Files             []run.Input
	Steps, Total      int
	Epochs            float64
	Tokens            int
	Loss              float64
	HeldOut           []heldOut
	Rewards           *train.Rewards // of the last evaluation of a loss that has them
	Distilled         *distilled     // by the first and the last evaluation beside a teacher
	Prompt            string
	Samples           []string
	Curve             string
	Compute           string // device, compute type, threads
	Program, GGML     string
	Use               string
	Commands          int  // commands that started or continued the run
	Changed           bool // the commands differ
	Repeats           bool // config.yaml alone repeats the run
	SHA256            string
}

// A distilled says how far the model has come to its teacher.
type distilled struct {
	Teacher       string
	Before, After train.Distilled
}

// cardMark marks a generated card. A README.md without it was written by a user and is kept.
const cardMark = "<!-- Written by finetune at the end of the run. Without this line it stays as it is. -->"

// Commands work in the folder and in copies of it: paths inside the folder are relative, other paths absolute.
var cardText = template.Must(template.New("card").Funcs(template.FuncMap{
	"base":    filepath.Base,
	"percent": func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) },
	"loss":    func(x float64) string { return fmt.Sprintf("%.4f", x) },
	"quote":   func(text string) string { return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ") },
	"cell":    func(text string) string { return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text) },
}).Parse(`---
library_name: gguf
tags: [lora, gguf, {{.Arch}}]
---
` + cardMark + `

# {{cell .Title}}

A LoRA adapter of {{.AdapterParameters}} parameters for {{cell .Base}} ({{.Arch}}, {{printf "%.1f" .Parameters}} M parameters), as a GGUF file that llama.cpp loads.

| file | what |
|---|---|
| {{.Adapter}} | the adapter after {{.Steps}} of {{.Total}} steps |
{{- if .Best}}
| {{.Best}} | use this one: it is the best on held-out data, with {{.BestFigure}} after step {{.BestStep}} |
{{- end}}

## Result

Trained on {{.Data}}: {{printf "%.4g" .Epochs}} epochs, {{.Tokens}} trained tokens; the loss of the last step was {{loss .Loss}}.
{{if .HeldOut}}
| held-out data | loss before | after | accuracy before | after |
|---|---:|---:|---:|---:|
{{- range .HeldOut}}
| {{cell (base .Path)}} | {{loss .Before.Loss}} | {{loss .After.Loss}} | {{percent .Before.Accuracy}} | {{percent .After.Accuracy}} |
{{- end}}
{{end}}
{{- with .Rewards}}
By the last evaluation of held-out answers, the mean reward of the chosen ones exceeds that of the others by {{printf "%.3g" .Margin}}, and {{percent .Accuracy}} are judged rightly.
{{end}}
{{- with .Distilled}}
The student imitates {{cell .Teacher}}. Per token of held-out data, its divergence from the teacher went from {{loss .Before.Divergence}} to {{loss .After.Divergence}} nats, and its cross-entropy from {{loss .Before.CrossEntropy}} to {{loss .After.CrossEntropy}}.
{{end}}
{{- if .Curve}}
![Loss over steps]({{.Curve}})
{{end}}
{{- if .Prompt}}
To the prompt

{{quote .Prompt}}

the base said

{{quote (index .Samples 0)}}

and with the adapter

{{quote (index .Samples 1)}}
{{end}}
## Use

` + "```sh\n{{.Use}}```" + `

## Repeat

Made by {{cell .Program}} with ggml {{.GGML}}, {{cell .Compute}}. [config.yaml](config.yaml) has all settings; the run read these files:

| flag | file | bytes | SHA-256 |
|---|---|---:|---|
{{- range .Files}}
| {{.Name}} | {{cell (base .Path)}} | {{.Bytes}} | ` + "`{{.SHA256}}`" + ` |
{{- end}}

{{if .Repeats}}{{if .Changed}}{{.Commands}} commands with different flags started and continued this run ([commands.txt](commands.txt)). config.yaml has the settings of the last one, so a repeated run may give another result.

` + "```sh\nfinetune --config config.yaml --run-dir repeated\n```" + `
{{else}}The same program on the same files and the same kind of processor makes the same adapter, byte for byte; another kind of processor rounds differently.

` + "```sh\nfinetune --config config.yaml --run-dir repeated\necho '{{.SHA256}}  repeated/{{.Adapter}}' | sha256sum -c\n```" + `
{{end}}{{else}}config.yaml cannot repeat this run: its data came through a pipe, or it wrote files outside this folder, which a repeated run would overwrite.
{{end}}`))

// commandStart matches the time at the start of an entry of commands.txt; an entry can have several lines.
var commandStart = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT[0-9:]+Z  `)

// Path, Before and After return columns of the table.
func (h heldOut) Path() string             { return h.path }
func (h heldOut) Before() train.Evaluation { return h.before }
func (h heldOut) After() train.Evaluation  { return h.after }

// writeCard writes the card of a finished run into its folder. A run without steps has none.
func (r *report) writeCard(folder *training.RunFolder, t *train.Trainer, compute string) error {
	if folder.Folder == nil || len(t.History) == 0 {
		return nil
	}
	path := folder.File(run.Card)
	before, err := filelink.Read(path, filelink.MaxText)
	switch {
	case err == nil && !bytes.Contains(before, []byte(cardMark)):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	c, err := r.card(folder, t)
	if err != nil {
		return err
	}
	c.Compute = compute
	var text bytes.Buffer
	if err := cardText.Execute(&text, c); err != nil {
		return err
	}
	return filelink.Replace(path, text.Bytes())
}

func (r *report) card(folder *training.RunFolder, t *train.Trainer) (*card, error) {
	manifest, _, err := run.ReadManifest(folder.Path)
	if err != nil {
		return nil, err
	}
	config, last := r.m.Config(), t.History[len(t.History)-1]
	c := &card{
		Title: filepath.Base(filepath.Clean(folder.Path)), Base: filepath.Base(r.p.ModelBase), Arch: config.Arch,
		Parameters: float64(config.NumParameters()) / 1e6, AdapterParameters: r.adapter.NumParameters(),
		Adapter: manifest.Adapter, Data: r.trained, Files: manifest.Files,
		Steps: t.Steps(), Total: t.TotalSteps(), Epochs: last.Epoch, Loss: last.Loss, HeldOut: r.texts,
		Prompt: r.p.Prompt, Samples: r.samples, Program: manifest.Program, GGML: manifest.GGML,
	}
	for _, m := range t.History {
		c.Tokens += m.Tokens
	}
	if n := len(t.Evaluations); n > 0 {
		first, last := t.Evaluations[0], t.Evaluations[n-1]
		c.Rewards = last.Rewards
		if first.Distilled != nil && last.Distilled != nil {
			c.Distilled = &distilled{Teacher: r.p.teachers.String(), Before: *first.Distilled, After: *last.Distilled}
		}
	}
	if r.best != nil {
		c.Best, c.BestStep, c.BestFigure = manifest.Best, r.best.Step, r.bestFigure()
	}
	if r.p.LossCurve != "" {
		c.Curve = filelink.ToFolder(folder.Path, r.p.LossCurve) + ".svg"
	}
	text, err := filelink.Read(folder.File(run.Commands), filelink.MaxText)
	if err != nil {
		return nil, err
	}
	read := slices.Concat(r.p.TrainData, []string{r.p.ValidData}, r.p.EvalData)
	c.Repeats = filepath.IsLocal(manifest.Adapter) && filepath.IsLocal(manifest.Metrics) && !slices.ContainsFunc(read, data.IsPipe)
	commands := commandStart.Split(string(text), -1)[1:] // the text after each time
	c.Commands, c.Changed = len(commands), len(slices.Compact(commands)) > 1
	sums, err := data.HashFiles(r.p.result().LatestPath())
	if err != nil {
		return nil, err
	}
	c.SHA256 = sums[0]
	c.Use, err = r.within(folder).useLines()
	return c, err
}

// within returns the report with commands that work in the run's folder.
func (r *report) within(folder *training.RunFolder) *report {
	there := func(path string) string {
		if path == "" {
			return path
		}
		return filelink.ToFolder(folder.Path, path)
	}
	p, c := *r.p, *r
	p.ModelBase, p.LoRAOut, p.ChatTemplate, p.RunDir = there(p.ModelBase), there(p.LoRAOut), there(p.ChatTemplate), "."
	c.p = &p
	return &c
}

// useLines returns commands that run the model with its adapter.
func (r *report) useLines() (string, error) {
	stock, err := r.stockCommand()
	if err != nil {
		return "", err
	}
	server := append([]string{"llama-server"}, stock[1:]...)
	if !r.isChat {
		server = slices.DeleteFunc(server, func(word string) bool { return word == "-p" || word == r.prompt() || word == "-no-cnv" })
	}
	own := []string{"finetune", "chat", "."}
	if !r.isChat {
		own = append([]string{"generate", "--run-dir", "."}, cli.Arg("--prompt", r.prompt())...)
	}
	var lines strings.Builder
	for _, use := range []cli.Advice{{For: "in a terminal", Words: own}, {For: "by llama.cpp", Words: stock}, {For: "as a server, by llama.cpp", Words: server}} {
		fmt.Fprintf(&lines, "# %s\n%s\n", use.For, use.Line())
	}
	return lines.String(), nil
}
