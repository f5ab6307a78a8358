package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
)

// OutputLocks keeps other processes from writing the same outputs.
type OutputLocks struct{ files []*os.File }

// LockOutputs locks outputs until Close or the end of the process. The lock is a file beside the output,
// because each save replaces the output.
func LockOutputs(outputs []File) (*OutputLocks, error) {
	l := &OutputLocks{}
	for _, out := range outputs {
		if out.Path == "" || !filelink.IsReplaced(out.Path) {
			continue
		}
		target, err := filelink.Target(out.Path)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("%s %s: %w", out.Flag, out.Path, filelink.SystemError(err))
		}
		file, err := filelock.Create(lockPath(target))
		if errors.Is(err, filelock.ErrLocked) {
			err = errors.New("another process is writing this file; wait for it to end, or give another name")
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("%s %s: %w", out.Flag, out.Path, filelink.SystemError(err))
		}
		l.files = append(l.files, file)
	}
	return l, nil
}

// lockPath returns the lock file of an output: a hidden file beside it.
func lockPath(path string) string {
	folder, name := filepath.Split(path)
	const longest = 255 - len("..lock") // limit of most file systems
	if len(name) > longest {
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	return filepath.Join(folder, "."+name+".lock")
}

// Close lets other processes write the outputs.
func (l *OutputLocks) Close() error {
	var errs []error
	for _, file := range l.files {
		errs = append(errs, filelock.Remove(file))
	}
	l.files = nil
	return errors.Join(errs...)
}
