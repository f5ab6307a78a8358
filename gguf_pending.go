package ggml

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goggml/ggml/internal/filelock"
)

// A pendingFile is on the disk, beside its path and under a temporary name. A file
// lock marks it as in use: the lock ends with the process, however that ends, and
// a file without one is what the next write of the path may remove.
type pendingFile struct {
	path, temporary string
	file            *os.File
	old             *pendingFile // what was at the path, until all files of a model are in place
}

func newPendingFile(path string, write func(w io.Writer) error) (_ *pendingFile, err error) {
	removeAbandoned(path)
	f, err := createPending(path)
	if err != nil {
		return nil, err
	}
	written := false
	defer func() {
		if !written { // also when write panics, or ends the goroutine
			f.discard()
		}
	}()
	if old, err := os.Stat(path); err == nil {
		if err := f.file.Chmod(old.Mode().Perm()); err != nil {
			return nil, err
		}
	}
	if err := write(f.file); err != nil {
		return nil, err
	}
	if err := f.file.Sync(); err != nil {
		return nil, err
	}
	written = true
	return f, nil
}

// createPending makes the file and locks it. Between the two another process may
// take it for abandoned, and remove it.
func createPending(path string) (*pendingFile, error) {
	for {
		name := temporaryName(path)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		if filelock.Lock(file) != filelock.ErrLocked && filelock.IsAt(name, file) {
			return &pendingFile{path: path, temporary: name, file: file}, nil
		}
		file.Close()
	}
}

// commit puts the file in place of what has its path.
func (f *pendingFile) commit() error {
	if err := os.Rename(f.temporary, f.path); err != nil {
		return err
	}
	f.temporary = ""
	f.file.Close() // after Sync; nil for some old ones
	syncFolder(filepath.Dir(f.path))
	return nil
}

// discard removes the file if it is still pending.
func (f *pendingFile) discard() {
	if f != nil && f.temporary != "" {
		os.Remove(f.temporary)
		f.file.Close()
		f.temporary = ""
	}
}

// commitAll puts all files in place, or none: what they replace keeps a temporary
// name until the last one is there.
func commitAll(files []*pendingFile) error {
	for i, f := range files {
		err := f.keepOld()
		if err == nil {
			err = f.commit()
		}
		if err != nil {
			err = writeError(f.path, f.path, err)
			for _, done := range files[:i+1] {
				err = errors.Join(err, done.rollBack())
			}
			return err
		}
	}
	for _, f := range files {
		f.old.discard()
	}
	return nil
}

// keepOld gives the file at the path a temporary name, too.
func (f *pendingFile) keepOld() error {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() { // which nothing replaces
		return nil
	}
	f.old = &pendingFile{path: f.path, temporary: temporaryName(f.path)}
	if os.Link(f.path, f.old.temporary) != nil { // some file systems cannot
		err = os.Rename(f.path, f.old.temporary)
	}
	if err != nil {
		f.old = nil
		return err
	}
	if info.Mode().IsRegular() {
		if f.old.file, err = os.Open(f.old.temporary); err == nil {
			_ = filelock.Lock(f.old.file) // if that fails it is locked by who else has it open
		}
	}
	return nil
}

// rollBack undoes keepOld and commit.
func (f *pendingFile) rollBack() error {
	if f.old == nil {
		if f.temporary != "" {
			return nil
		}
		return os.Remove(f.path)
	}
	name := f.old.temporary
	if err := f.old.commit(); err != nil {
		return fmt.Errorf("what was there is %s now: %w", name, err)
	}
	os.Remove(name) // a file with both names keeps them when it is renamed
	return nil
}

// temporaryEnd is how the temporary name of a path goes on after its stem.
var temporaryEnd = regexp.MustCompile(`^\.[A-Z2-7]{8}\.tmp$`)

func temporaryName(path string) string {
	return temporaryStem(path) + "." + rand.Text()[:8] + ".tmp"
}

// temporaryStem is the path, cut where its name would be too long with more.
func temporaryStem(path string) string {
	const longest = 255 - len(".XXXXXXXX.tmp")
	folder, name := filepath.Split(path)
	if len(name) > longest {
		end := longest
		for end > 0 && !utf8.RuneStart(name[end]) {
			end--
		}
		name = name[:end]
	}
	return folder + name
}

// removeAbandoned removes the temporary files of the path that processes left
// which are no more.
func removeAbandoned(path string) {
	folder, stem := filepath.Split(temporaryStem(path))
	entries, _ := os.ReadDir(filepath.Clean(folder))
	for _, e := range entries {
		end, found := strings.CutPrefix(e.Name(), stem)
		if !found || !temporaryEnd.MatchString(end) || !e.Type().IsRegular() {
			continue
		}
		filelock.RemoveAbandoned(folder + e.Name())
	}
}

// syncFolder makes a rename last, where the file system can do that.
func syncFolder(path string) {
	if folder, err := os.Open(path); err == nil {
		_ = folder.Sync()
		folder.Close()
	}
}
