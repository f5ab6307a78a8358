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

// A Pending is a file with a temporary name beside its path. A file lock marks it as in use. The lock ends with
// the process, and the next write of the path removes temporary files without a lock.
type Pending struct {
	path      string // the caller's path, for errors
	target    string // path after following links
	temporary string
	file      *os.File
	old       *Pending // the replaced file, until all files of a model are in place
}

// Pend writes a temporary file, which [Pending.Commit] or [CommitAll] puts in place.
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
		if !written { // also when write panics or exits the goroutine
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

// createPending creates the file and locks it. In between, another process may consider it abandoned and remove
// it.
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

// Commit renames the file to its path.
func (f *Pending) Commit() error {
	if err := os.Rename(f.temporary, f.target); err != nil {
		return writeError(f.path, f.target, err)
	}
	f.temporary = ""
	f.file.Close() // after Sync; nil for some replaced files
	syncFolder(filepath.Dir(f.target))
	return nil
}

// Discard removes the file if it was not committed.
func (f *Pending) Discard() {
	if f != nil && f.temporary != "" {
		os.Remove(f.temporary)
		f.file.Close()
		f.temporary = ""
	}
}

// CommitAll puts all files in place, or none: replaced files keep a temporary name until the last one is in
// place.
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

// keepOld gives the replaced file a temporary name.
func (f *Pending) keepOld() error {
	info, err := os.Lstat(f.target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() { // a missing file or a folder is not replaced
		return nil
	}
	f.old = &Pending{path: f.path, target: f.target, temporary: temporaryName(f.target)}
	if os.Link(f.target, f.old.temporary) != nil { // some file systems have no hard links
		err = os.Rename(f.target, f.old.temporary)
	}
	if err != nil {
		f.old = nil
		return err
	}
	if info.Mode().IsRegular() {
		if f.old.file, err = os.Open(f.old.temporary); err == nil {
			_ = filelock.Lock(f.old.file) // if that fails, another process has locked it
		}
	}
	return nil
}

// rollBack undoes keepOld and Commit.
func (f *Pending) rollBack() error {
	if f.old == nil {
		if f.temporary != "" {
			return nil
		}
		return os.Remove(f.target)
	}
	name := f.old.temporary
	if err := f.old.Commit(); err != nil {
		return fmt.Errorf("the old content of %s is now in %s: %w", f.path, name, SystemError(err))
	}
	os.Remove(name) // renaming one of two links of a file does nothing
	return nil
}

// temporaryEnd matches the end of a temporary name, after the stem.
var temporaryEnd = regexp.MustCompile(`^\.[A-Z2-7]{8}\.tmp$`)

func temporaryName(path string) string {
	return temporaryStem(path) + "." + rand.Text()[:8] + ".tmp"
}

// temporaryStem returns the path, shortened so that a longer name is still valid.
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

// removeAbandoned removes temporary files of the path whose processes have ended.
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

// syncFolder makes a rename durable, if the file system supports that.
func syncFolder(path string) {
	if folder, err := os.Open(path); err == nil {
		_ = folder.Sync()
		folder.Close()
	}
}
