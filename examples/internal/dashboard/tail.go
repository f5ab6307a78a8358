package dashboard

import (
	"bytes"
	"io"
	"os"

	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/run"
)

// A tail is the parsed part of a run's metrics. The page asks each second, and only new lines are read.
type tail struct {
	info     os.FileInfo
	number   int   // counts replaced files: a continued run starts its metrics anew
	read     int64 // bytes of whole lines
	progress run.Progress
}

// tailOf reads the new lines in the metrics of a run.
func (f *folder) tailOf(r *runs.Run) (tail, error) {
	path := r.MetricsPath()
	file, info, err := filelink.Open(path)
	if err != nil {
		return tail{}, err
	}
	defer file.Close()
	if info.Size() > filelink.MaxMetrics {
		return tail{}, os.ErrInvalid
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tails[r.Path]
	if t == nil {
		t = &tail{}
		f.tails[r.Path] = t
	}
	if t.info == nil || !os.SameFile(t.info, info) || info.Size() < t.read {
		*t = tail{number: t.number + 1}
	}
	t.info, t.progress.Starts = info, r.Starts()
	for t.read < info.Size() {
		next, err := readLines(file, t.read, min(info.Size(), t.read+chunk), func(l *run.Line) {
			if l == nil {
				t.progress.Broken++
				return
			}
			t.progress.Add(*l)
		})
		if err != nil {
			return tail{}, err
		}
		if next == t.read {
			break
		}
		t.read = next
	}
	return *t, nil
}

// chunk is the size of one read.
const chunk = 4 << 20

// readLines parses the whole lines in a part of a file; broken lines are nil. It returns the end of the last
// line.
func readLines(file io.ReaderAt, from, to int64, add func(*run.Line)) (next int64, err error) {
	text, err := io.ReadAll(io.NewSectionReader(file, from, to-from))
	if err != nil {
		return from, err
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	if end == 0 && len(text) == chunk { // the line is longer than a chunk
		end = len(text)
	}
	for line := range bytes.Lines(text[:end]) {
		l, err := run.ParseLine(line)
		if err != nil {
			add(nil)
			continue
		}
		add(&l)
	}
	return from + int64(end), nil
}
