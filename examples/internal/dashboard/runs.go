package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/run"
)

// folder is where the runs are, and what is known of their files.
type folder struct {
	path string

	mu        sync.Mutex
	files     map[string]*version // of metrics, by run
	summaries map[string]summary  // by run
}

// A summary is that of a run as long as its metrics are the same: reading all of them takes long, and pages ask each second.
type summary struct {
	metrics os.FileInfo
	runs.Summary
}

// A version counts how often a file was replaced by another one: a run that goes on begins its metrics anew.
type version struct {
	info   os.FileInfo
	number int
}

// A row is a run in the list.
type row struct {
	Name     string   `json:"name"` // of its folder, from that of all
	Model    string   `json:"model"`
	Data     []string `json:"data"`
	Step     int      `json:"step"`
	Steps    int      `json:"steps"`
	Loss     *float64 `json:"loss,omitempty"`
	BestLoss *float64 `json:"best_loss,omitempty"`
	Time     string   `json:"time"`
}

// nameOf is that of a run in the folder, which may be one itself.
func (f *folder) nameOf(r *runs.Run) string {
	name, err := filepath.Rel(f.path, r.Path)
	if err != nil || name == "." {
		name = filepath.Base(r.Path)
	}
	return filepath.ToSlash(name)
}

// summaryOf summarises a run, if its metrics have changed.
func (f *folder) summaryOf(name string, r *runs.Run) runs.Summary {
	info, err := os.Stat(metricsOf(r))
	if err != nil {
		return r.Summary()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.summaries[name]
	if !ok || !os.SameFile(known.metrics, info) || known.metrics.Size() != info.Size() || !known.metrics.ModTime().Equal(info.ModTime()) {
		known = summary{info, r.Summary()}
		f.summaries[name] = known
	}
	return known.Summary
}

func metricsOf(r *runs.Run) string { return filelink.FromFolder(r.Path, r.Manifest.Metrics) }

func (f *folder) list(w http.ResponseWriter, _ *http.Request) {
	rows := []row{}
	list, _ := runs.List(f.path) // what cannot be opened is none
	for _, r := range list {
		name := f.nameOf(r)
		s := f.summaryOf(name, r)
		var data []string
		for _, path := range s.Data {
			data = append(data, filepath.Base(path))
		}
		rows = append(rows, row{name, filepath.Base(s.Model), data, s.Step, s.Steps, s.Loss, s.BestLoss, s.Time})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	writeJSON(w, rows)
}

// named is the run that a request names, nil after an answer that says that there is none.
func (f *folder) named(w http.ResponseWriter, r *http.Request) (string, *runs.Run) {
	name := r.URL.Query().Get("name")
	path := f.path
	if !run.Is(path) {
		path = filepath.Join(path, filepath.FromSlash(name))
	}
	found, err := runs.Open(path)
	if err != nil || !filepath.IsLocal(filepath.FromSlash(name)) || f.nameOf(found) != name {
		http.Error(w, "there is no such run", http.StatusNotFound)
		return "", nil
	}
	return name, found
}

// describe gives the settings of a run and the commands that it was made by.
func (f *folder) describe(w http.ResponseWriter, r *http.Request) {
	_, of := f.named(w, r)
	if of == nil {
		return
	}
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(of.Path, name)) // which an older run may not have
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

// metrics gives the lines of the metrics behind those that the page has: it says by version and from which these are.
func (f *folder) metrics(w http.ResponseWriter, r *http.Request) {
	name, of := f.named(w, r)
	if of == nil {
		return
	}
	file, err := os.Open(metricsOf(of))
	if err != nil {
		http.Error(w, "the run has no metrics yet", http.StatusNotFound)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.Error(w, "the metrics are in no file", http.StatusNotFound)
		return
	}
	number := f.versionOf(name, info)
	from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if was, err := strconv.Atoi(r.URL.Query().Get("version")); err != nil || was != number || from < 0 || from > info.Size() {
		from = 0
	}
	// What is there now, up to the last whole line.
	text, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil {
		http.Error(w, "the metrics cannot be read", http.StatusInternalServerError)
		return
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Metrics-Version", strconv.Itoa(number))
	w.Header().Set("Metrics-From", strconv.FormatInt(from, 10))
	w.Header().Set("Metrics-Next", strconv.FormatInt(from+int64(len(text)), 10))
	_, _ = w.Write(text)
}

// versionOf counts a file that is another one than that of the last request.
func (f *folder) versionOf(name string, info os.FileInfo) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.files[name]
	if v == nil {
		v = &version{}
		f.files[name] = v
	}
	if v.info == nil || !os.SameFile(v.info, info) || info.Size() < v.info.Size() {
		v.number++
	}
	v.info = info
	return v.number
}

// samples gives what the model made of the prompt of the run.
func (f *folder) samples(w http.ResponseWriter, r *http.Request) {
	_, of := f.named(w, r)
	if of == nil {
		return
	}
	text, _ := os.ReadFile(filepath.Join(of.Path, run.Samples)) // which a run without a prompt has not
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	_, _ = w.Write(text[:bytes.LastIndexByte(text, '\n')+1])
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(value) // to a browser that may have gone
}
