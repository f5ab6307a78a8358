package filelink

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/testhook"
)

// IsReplaced reports whether writing a path creates or replaces a file. Otherwise the write goes directly to a
// pipe, a device, or an open file of this process such as /dev/stdout.
func IsReplaced(path string) bool {
	info, err := os.Stat(path)
	return (err != nil || info.Mode().IsRegular()) && descriptor(path) < 0
}

// Write writes a file; everything except logs and caches uses it. It creates the file beside the path, syncs it
// to the disk, and renames it, so the path never names an incomplete file. If the path is a link, the link
// stays and its target is replaced. Files that cannot be replaced are written directly, see [IsReplaced]. An
// error names the file, which then keeps its contents.
func Write(path string, write func(w io.Writer) error) error {
	if IsReplaced(path) {
		f, err := Pend(path, write)
		if err != nil {
			return err
		}
		defer f.Discard()
		return f.Commit()
	}
	file, err := openDirectly(path)
	if err != nil {
		return writeError(path, path, err)
	}
	defer file.Close() // also after a panic of write
	if err = buffered(file, write); err == nil {
		err = file.Close()
	}
	return writeError(path, file.Name(), err)
}

func buffered(file *os.File, write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(file, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// Replace writes a text by [Write].
func Replace(path string, text []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Link makes a path another name of a file, atomically. Like [Pend] it removes what killed processes left.
func Link(file, path string) error {
	target, err := Target(path)
	if err != nil {
		return writeError(path, path, err)
	}
	removeAbandoned(target)
	for {
		beside := temporaryName(target)
		if err := os.Link(file, beside); err != nil {
			return writeError(path, target, err)
		}
		err = os.Rename(beside, target)
		os.Remove(beside)                    // remains if both were already the same file
		if !errors.Is(err, fs.ErrNotExist) { // else another process has removed the link as abandoned
			return writeError(path, target, err)
		}
	}
}

// Append appends a text to a file, or leaves the file unchanged.
func Append(path string, text []byte) error {
	file, err := OpenLog(path)
	if err != nil {
		return err
	}
	return errors.Join(AddTo(file, text), file.Close())
}

// OpenLog opens or creates a file for [AddTo].
func OpenLog(path string) (*os.File, error) {
	if !IsReplaced(path) {
		file, err := openDirectly(path)
		return file, writeError(path, path, err)
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
}

// AddTo appends a text to a log, or leaves the log unchanged.
func AddTo(file *os.File, text []byte) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err != nil && info.Mode().IsRegular() {
		err = errors.Join(err, file.Truncate(info.Size()))
	}
	return err
}

// openDirectly opens a file that is not replaced. As in a shell, a pipe waits for its reader, but only for a
// limited time.
func openDirectly(path string) (*os.File, error) {
	if fd := descriptor(path); fd >= 0 {
		return openDescriptor(fd)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errFolder
	}
	for end := time.Now().Add(testhook.PipeWait); ; time.Sleep(10 * time.Millisecond) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) || info.Mode()&fs.ModeNamedPipe == 0 {
			return file, err
		}
		if time.Now().After(end) {
			return nil, errUnread
		}
	}
}

// writeError returns an error with the caller's path instead of the link target's or the temporary name.
func writeError(path, target string, err error) error {
	if err == nil {
		return nil
	}
	var where *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &where) && strings.HasPrefix(where.Path, temporaryStem(target)):
		err = where.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &fs.PathError{Op: "write", Path: path, Err: err}
}
