package filelink

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

// A Pending file is on the disk, beside its path and under a temporary name. A file lock marks it
// as in use: the lock ends with the process, however that ends, and the next write of the path may
// remove a file without a lock.
type Pending struct {
	path      string // as the caller has it, for errors
	target    string // where its links lead to
	temporary string
	file      *os.File
	old       *Pending // the replaced file, until all files of a model are in place
}

// Pend writes a file that [Pending.Commit] or [CommitAll] puts in place.
func Pend(path string, write func(w io.Writer) error) (_ *Pending, err error) {
	target, err := Target(path)
	if err != nil {
		return nil, writeError(path, path, err)
	}
	if info, err := os.Stat(target); err == nil {
		if err := checkRegular(target, info); err != nil {
			return nil, writeError(path, target, err)
		}
	}
	removeAbandoned(target)
	f, err := createPending(target)
	if err != nil {
		return nil, writeError(path, target, err)
	}
	f.path = path
	written := false
	defer func() {
		if !written { // also when write panics, or ends the goroutine
			f.Discard()
		}
	}()
	if old, err := os.Stat(target); err == nil {
		if err := f.file.Chmod(old.Mode().Perm()); err != nil {
			return nil, writeError(path, target, err)
		}
	}
	if err = buffered(f.file, write); err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return nil, writeError(path, target, err)
	}
	written = true
	return f, nil
}

// createPending makes the file and locks it. Between the two another process may
// take it for abandoned, and remove it.
func createPending(target string) (*Pending, error) {
	for {
		name := temporaryName(target)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		if filelock.Lock(file) != filelock.ErrLocked && filelock.IsAt(name, file) {
			return &Pending{target: target, temporary: name, file: file}, nil
		}
		file.Close()
	}
}

// Commit puts the file in place of what has its path.
func (f *Pending) Commit() error {
	if err := os.Rename(f.temporary, f.target); err != nil {
		return writeError(f.path, f.target, err)
	}
	f.temporary = ""
	f.file.Close() // after Sync; nil for some old ones
	syncFolder(filepath.Dir(f.target))
	return nil
}

// Discard removes the file if it is still pending.
func (f *Pending) Discard() {
	if f != nil && f.temporary != "" {
		os.Remove(f.temporary)
		f.file.Close()
		f.temporary = ""
	}
}

// CommitAll puts all files in place, or none: replaced files keep a temporary name until the last
// one is in place.
func CommitAll(files []*Pending) error {
	for i, f := range files {
		err := f.keepOld()
		if err == nil {
			err = f.Commit()
		}
		if err != nil {
			err = SystemError(err)
			for _, done := range files[:i+1] {
				err = errors.Join(err, done.rollBack())
			}
			return &fs.PathError{Op: "write", Path: f.path, Err: err}
		}
	}
	for _, f := range files {
		f.old.Discard()
	}
	return nil
}

// keepOld gives the file at the target a temporary name, too.
func (f *Pending) keepOld() error {
	info, err := os.Lstat(f.target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() { // which nothing replaces
		return nil
	}
	f.old = &Pending{path: f.path, target: f.target, temporary: temporaryName(f.target)}
	if os.Link(f.target, f.old.temporary) != nil { // some file systems cannot
		err = os.Rename(f.target, f.old.temporary)
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
func (f *Pending) rollBack() error {
	if f.old == nil {
		if f.temporary != "" {
			return nil
		}
		return os.Remove(f.target)
	}
	name := f.old.temporary
	if err := f.old.Commit(); err != nil {
		return fmt.Errorf("what was in %s is %s now: %w", f.path, name, SystemError(err))
	}
	os.Remove(name) // a file with both names keeps them when it is renamed
	return nil
}

// temporaryEnd is the end of a path's temporary name, after the stem.
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
