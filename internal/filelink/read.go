package filelink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/testhook"
)

// Errors of files without random access, of devices that may never end, and of pipes that cannot be written to.
var (
	errFolder    = errors.New("it is a folder; name the file in it")
	errIrregular = errors.New("it is a pipe or a device; name a regular file")
	errUnwritten = errors.New("nobody writes to this pipe; start its writer first")
	errUnread    = errors.New("nobody reads this pipe; start its reader first")
)

// Limits for files in a run's folder, which may come from anywhere.
const (
	MaxText    = 16 << 20 // bytes of each file except the metrics
	MaxMetrics = 1 << 30
)

// Open opens a regular file, and rejects others: opening a pipe would wait for its writer, and a device may
// never end.
func Open(path string) (*os.File, fs.FileInfo, error) {
	if info, err := os.Stat(path); err == nil { // opening a device may change its state
		if err := checkRegular(path, info); err != nil {
			return nil, nil, err
		}
	}
	// Nonblocking, in case a pipe has replaced the file.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	err := errIrregular
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		err = errFolder
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// OpenStream opens a file that is read once from its start. As in a shell, a pipe waits for its writer, but
// only for a limited time.
func OpenStream(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return os.Open(path)
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.Open(path)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-time.After(testhook.PipeWait):
		return nil, &fs.PathError{Op: "open", Path: path, Err: errUnwritten}
	}
}

// Read reads a regular file of at most most bytes.
func Read(path string, most int64) ([]byte, error) {
	file, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text []byte
	if info.Size() <= most {
		text, err = io.ReadAll(io.LimitReader(file, most+1))
	}
	if err == nil && max(info.Size(), int64(len(text))) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", most)}
	}
	return text, err
}
