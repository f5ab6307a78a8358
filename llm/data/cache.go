package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
)

// The file of a key is complete, or it has pendingSuffix and is locked while being written. A pending
// file that is not locked was left by a process that no longer exists.
const (
	tokenSuffix   = ".tokens"
	pendingSuffix = ".pending"
	pollLock      = 100 * time.Millisecond
)

// preparedFile is a token file with the statistics of its examples.
type preparedFile struct {
	*tokenFile
	stats Stats
}

// tokenFile opens the cached file, or creates it with fill.
func (o PrepareOptions) tokenFile(ctx context.Context, fill func(*tokenWriter) (Stats, error)) (preparedFile, error) {
	if o.Cache == "" {
		return unnamedFile(fill)
	}
	if err := filelink.MkdirAll(o.Cache, 0o777); err != nil {
		return preparedFile{}, fmt.Errorf("the token cache cannot be written: %w", err)
	}
	removeAbandoned(o.Cache)
	path := filepath.Join(o.Cache, o.cacheKey()+tokenSuffix)
	for {
		before, _ := os.Stat(path) // nil if absent
		if f, found := o.cached(path); found {
			return f, nil
		}
		pending, err := o.lockPending(ctx, path+pendingSuffix)
		if err != nil {
			return preparedFile{}, err
		}
		if !filelock.IsAt(pending.Name(), pending) {
			pending.Close() // another process finished it while this one waited for the lock
			continue
		}
		if after, err := os.Stat(path); err == nil && !os.SameFile(before, after) { // or before this one's file
			filelock.Remove(pending)
			continue
		}
		return fillPending(pending, path, fill)
	}
}

// cacheKey returns the file name: a hash of the key, the options and the version of the format.
func (o PrepareOptions) cacheKey() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %s %q", tokenFileVersion, o.Length, o.TooLong, o.Key)
	return shortHash(h)
}

// cached opens the file at path if it is complete.
func (o PrepareOptions) cached(path string) (preparedFile, bool) {
	file, _, err := filelink.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return preparedFile{}, false
	}
	if err == nil {
		var f *tokenFile
		if f, err = readTokenFile(file); err == nil {
			o.SkipBroken.restore(f.report.Skipped)
			stats := f.head.Stats.stats()
			stats.Notes = f.report.Notes
			return preparedFile{f, stats}, true
		}
	}
	o.Warn(fmt.Sprintf("the token cache %s cannot be used: %v; making it again", path, err))
	return preparedFile{}, false
}

// lockPending creates the pending file and waits for its lock. On systems without locks each process
// writes a file of its own, and a killed process leaves it behind.
func (o PrepareOptions) lockPending(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("the token cache cannot be written: %w", err)
	}
	locked := false
	defer func() {
		if !locked {
			file.Close()
		}
	}()
	for tries := 0; ; tries++ {
		err := filelock.Lock(file)
		if err == nil {
			locked = true
			return file, nil
		}
		if err != filelock.ErrLocked {
			return os.CreateTemp(filepath.Dir(path), "*."+filepath.Base(path))
		}
		if tries == 1 {
			o.Warn(fmt.Sprintf("waiting for another process, which prepares the same data in %s", path))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollLock):
		}
	}
}

// fillPending writes the file and renames it to path. Checksums detect later damage by a power
// failure.
func fillPending(pending *os.File, path string, fill func(*tokenWriter) (Stats, error)) (preparedFile, error) {
	defer pending.Close() // also unlocks it
	renamed := false
	defer func() {
		if !renamed { // also if the caller's function panics
			os.Remove(pending.Name())
		}
	}()
	stats, err := fillFile(pending, fill)
	if err == nil {
		err = os.Rename(pending.Name(), path)
	}
	if err != nil {
		return preparedFile{}, err
	}
	renamed = true
	file, err := os.Open(path)
	return openFilled(file, err, stats)
}

func fillFile(file *os.File, fill func(*tokenWriter) (Stats, error)) (Stats, error) {
	if err := file.Truncate(0); err != nil {
		return Stats{}, err
	}
	w, err := newTokenWriter(file)
	if err != nil {
		return Stats{}, err
	}
	stats, err := fill(w)
	if err != nil {
		return Stats{}, err
	}
	return stats, w.finish(stats)
}

func openFilled(file *os.File, err error, stats Stats) (preparedFile, error) {
	if err != nil {
		return preparedFile{}, err
	}
	f, err := readTokenFile(file)
	if err != nil {
		return preparedFile{}, fmt.Errorf("%s: the file just written is damaged: %w", file.Name(), err)
	}
	return preparedFile{f, stats}, nil
}

// unnamedFile creates a file in the system's temporary folder that is deleted when it is closed.
func unnamedFile(fill func(*tokenWriter) (Stats, error)) (preparedFile, error) {
	file, err := os.CreateTemp("", "tokens-*")
	if err != nil {
		return preparedFile{}, fmt.Errorf("the tokens need a temporary file: %w; set TMPDIR, or name a folder for the token cache", err)
	}
	removed := os.Remove(file.Name()) == nil // on systems that can remove an open file
	filled := false
	defer func() {
		if filled {
			return
		}
		file.Close()
		if !removed {
			os.Remove(file.Name())
		}
	}()
	stats, err := fillFile(file, fill)
	if err != nil {
		return preparedFile{}, err
	}
	filled = true
	return openFilled(file, nil, stats)
}

// removeAbandoned removes the pending files that dead processes left in a folder.
func removeAbandoned(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), tokenSuffix+pendingSuffix) || !e.Type().IsRegular() {
			continue
		}
		filelock.RemoveAbandoned(filepath.Join(folder, e.Name()))
	}
}
