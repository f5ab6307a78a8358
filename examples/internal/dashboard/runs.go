package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/run"
)

// A folder contains runs; tails has the parsed part of their metrics.
type folder struct {
	path string

	mu    sync.Mutex
	tails map[string]*tail // by run
}

// A row is a run in the list.
type row struct {
	Name     string   `json:"name"` // path of the run's folder, relative to the folder of all runs
	Model    string   `json:"model"`
	Data     []string `json:"data"`
	Step     int      `json:"step"`
	Steps    int      `json:"steps"`
	Loss     *float64 `json:"loss,omitempty"`
	BestLoss *float64 `json:"best_loss,omitempty"`
	Time     string   `json:"time"`
	State    string   `json:"state"`
	Status   string   `json:"status"`  // state, time taken and time left
	Samples  string   `json:"samples"` // changes when the samples do
	Broken   string   `json:"-"`       // error of the metrics
}

// nameOf returns the name of a run in the folder, which may itself be a run. Names need not be UTF-8,
// but JSON is.
func (f *folder) nameOf(path string) string {
	name, err := filepath.Rel(f.path, path)
	if err != nil || name == "." {
		name = filepath.Base(path)
	}
	return strings.ToValidUTF8(filepath.ToSlash(name), "\uFFFD")
}

func (f *folder) rowOf(r *runs.Run) row {
	x := row{Name: f.nameOf(r.Path), Steps: r.Manifest.Steps}
	if model := r.Paths("model-base"); len(model) > 0 {
		x.Model = filepath.Base(model[0])
	}
	for _, path := range r.Paths("train-data") {
		x.Data = append(x.Data, filepath.Base(path))
	}
	if at, err := r.Time(); err == nil {
		x.Time = at.UTC().Format("2006-01-02 15:04")
	}
	if info, err := os.Stat(filepath.Join(r.Path, run.Samples)); err == nil {
		x.Samples = fmt.Sprintf("%d %d", info.ModTime().UnixNano(), info.Size())
	}
	if t, err := f.tailOf(r); err == nil {
		p := t.progress
		if x.Step = p.Step; p.Step > 0 {
			x.Loss = &p.Loss
		}
		if p.Evaluated {
			x.BestLoss = &p.BestLoss
		}
		if p.Broken > 0 {
			x.Broken = fmt.Sprintf("%s: %s cannot be read", r.MetricsPath(), cli.Count(p.Broken, "line"))
		}
		x.State, x.Status = string(r.State(p)), r.Describe(p)
	} else {
		x.State, x.Status = string(r.State(run.Progress{})), r.Describe(run.Progress{})
	}
	return x
}

// list answers with the runs, and the errors of folders that look like one.
func (f *folder) list(w http.ResponseWriter, _ *http.Request) {
	answer := struct {
		Runs   []row    `json:"runs"`
		Faults []string `json:"faults"`
	}{Runs: []row{}, Faults: []string{}}
	list, err := runs.List(f.path)
	for _, r := range list {
		x := f.rowOf(r)
		answer.Runs = append(answer.Runs, x)
		if x.Broken != "" {
			answer.Faults = append(answer.Faults, x.Broken)
		}
	}
	if err != nil {
		answer.Faults = append(answer.Faults, strings.Split(err.Error(), "\n")...)
	}
	slices.SortStableFunc(answer.Runs, func(a, b row) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	writeJSON(w, answer)
}

// named returns the run that a request names. If none exists, it answers with an error and returns nil.
func (f *folder) named(w http.ResponseWriter, r *http.Request) *runs.Run {
	name := r.URL.Query().Get("name")
	path := f.path
	if !run.Is(path) {
		path = filepath.Join(path, filepath.FromSlash(name))
	}
	if found, err := runs.Open(path); err == nil && filepath.IsLocal(filepath.FromSlash(name)) && f.nameOf(found.Path) == name {
		return found
	}
	if strings.ContainsRune(name, '\uFFFD') { // nameOf replaces bytes that are not UTF-8
		list, _ := runs.List(f.path)
		if i := slices.IndexFunc(list, func(r *runs.Run) bool { return f.nameOf(r.Path) == name }); i >= 0 {
			return list[i]
		}
	}
	http.Error(w, "there is no such run", http.StatusNotFound)
	return nil
}

// describe answers with the settings of a run and its command lines.
func (f *folder) describe(w http.ResponseWriter, r *http.Request) {
	of := f.named(w, r)
	if of == nil {
		return
	}
	text := func(name string) string {
		b, _ := filelink.Read(filepath.Join(of.Path, name), filelink.MaxText) // absent in older runs
		return string(b)
	}
	writeJSON(w, struct {
		Config   string      `json:"config"`
		Commands string      `json:"commands"`
		Program  string      `json:"program"`
		GGML     string      `json:"ggml"`
		Files    []run.Input `json:"files"`
	}{text(run.Config), text(run.Commands), of.Manifest.Program, of.Manifest.GGML, of.Manifest.Files})
}

// metrics answers with the lines of the metrics file that the page does not have yet, and null for a broken line. The
// parameters version and from say how far the page has read. It asks again until next equals from.
func (f *folder) metrics(w http.ResponseWriter, r *http.Request) {
	of := f.named(w, r)
	if of == nil {
		return
	}
	t, err := f.tailOf(of)
	if err != nil {
		http.Error(w, "the run has no metrics yet", http.StatusNotFound)
		return
	}
	from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if was, err := strconv.Atoi(r.URL.Query().Get("version")); err != nil || was != t.number || from < 0 || from > t.read {
		from = 0
	}
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Metrics-Version", strconv.Itoa(t.number))
	w.Header().Set("Metrics-From", strconv.FormatInt(from, 10))
	var lines []*run.Line
	next := from
	file, _, err := filelink.Open(of.MetricsPath())
	if err == nil {
		defer file.Close()
		next, err = readLines(file, from, min(t.read, from+chunk), func(l *run.Line) { lines = append(lines, l) })
	}
	if err != nil {
		http.Error(w, "the metrics cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Metrics-Next", strconv.FormatInt(next, 10))
	writeLines(w, lines)
}

// samples answers with the replies to the run's prompts.
func (f *folder) samples(w http.ResponseWriter, r *http.Request) {
	of := f.named(w, r)
	if of == nil {
		return
	}
	list, _ := of.Samples() // a run without prompts has none
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	writeLines(w, list)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(value) // the browser may be gone
}

// writeLines writes values that were parsed, so the page gets no broken line.
func writeLines[T any](w http.ResponseWriter, list []T) {
	lines := json.NewEncoder(w)
	for _, value := range list {
		if lines.Encode(value) != nil {
			return
		}
	}
}
