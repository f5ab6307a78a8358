package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

var currentLogger atomic.Pointer[slog.Logger]

// SetLogger sends the messages of the C library, and this package's warnings, to a logger. The
// default writes warnings and errors to [slog.Default]; nil discards all messages. A handler runs
// inside the operation that it reports: it may use this package, but not the object being operated
// on, which is locked. Messages of plugins arrive after the plugins are loaded.
//
// It is safe for concurrent use. C: ggml_log_set.
func SetLogger(l *slog.Logger) {
	if l == nil {
		l = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	currentLogger.Store(l)
}

// Logger returns the logger of the messages; see [SetLogger]. It is safe for concurrent use. C:
// ggml_log_get.
func Logger() *slog.Logger { return logger() }

func logger() *slog.Logger {
	if l := currentLogger.Load(); l != nil {
		return l
	}
	return slog.New(warningsOnly{slog.Default().Handler()})
}

// warningsOnly is a handler that drops messages below warning: the C library reports every plugin
// that it tries.
type warningsOnly struct{ slog.Handler }

func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// logLines joins the parts of a message: C code ends a line with a newline, and continues a line
// with messages of the level CONT.
var logLines struct {
	sync.Mutex
	level slog.Level
	text  strings.Builder
}

var slogLevels = map[C.int]slog.Level{
	C.GGML_LOG_LEVEL_DEBUG: slog.LevelDebug,
	C.GGML_LOG_LEVEL_INFO:  slog.LevelInfo,
	C.GGML_LOG_LEVEL_WARN:  slog.LevelWarn,
	C.GGML_LOG_LEVEL_ERROR: slog.LevelError,
}

//export goggmlLog
func goggmlLog(level C.int, text *C.char) {
	logLines.Lock()
	if l, ok := slogLevels[level]; ok {
		logLines.level = l
	}
	logLines.text.WriteString(C.GoString(text))
	lines := strings.Split(logLines.text.String(), "\n")
	logLines.text.Reset()
	logLines.text.WriteString(lines[len(lines)-1])
	l := logLines.level
	logLines.Unlock()
	for _, line := range lines[:len(lines)-1] {
		if line = strings.TrimSpace(line); line != "" {
			heldLog.add(logRecord{l, "ggml: " + line})
		}
	}
}

type logRecord struct {
	level slog.Level
	text  string
}

// write passes the record to the logger. A panic of a handler must not unwind the C frames below.
func (r logRecord) write() {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(os.Stderr, "ggml: the logger panicked:", p)
		}
	}()
	logger().Log(context.Background(), r.level, r.text)
}

// heldLog holds back messages while the list of backends is locked. A handler that uses this
// package would wait for that lock, whose holder waits for the handler.
var heldLog logQueue

type logQueue struct {
	mu      sync.Mutex
	holders int
	records []logRecord
}

func (q *logQueue) add(r logRecord) {
	q.mu.Lock()
	held := q.holders > 0
	if held {
		q.records = append(q.records, r)
	}
	q.mu.Unlock()
	if !held {
		r.write()
	}
}

// hold holds back messages until release, which writes them.
func (q *logQueue) hold() (release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holders++
	return q.release
}

func (q *logQueue) release() {
	q.mu.Lock()
	q.holders--
	var records []logRecord
	if q.holders == 0 {
		records, q.records = q.records, nil
	}
	q.mu.Unlock()
	for _, r := range records {
		r.write()
	}
}
