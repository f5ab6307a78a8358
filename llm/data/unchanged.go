package data

import (
	"fmt"
	"iter"
	"os"
	"time"
)

// versions identifies the contents of files without reading them.
type versions map[string]version

type version struct {
	size     int64
	modified time.Time
}

// versionsOf records the versions of regular files; others have no lasting contents.
func versionsOf(files []string) versions {
	v := versions{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			v[file] = version{info.Size(), info.ModTime()}
		}
	}
	return v
}

// check returns an error if a file has changed since: samples would mix versions, and a cache would
// store them under the hash of another version.
func (v versions) check() error {
	for file, before := range v {
		if info, err := os.Stat(file); err != nil || info.Size() != before.size || !info.ModTime().Equal(before.modified) {
			return fmt.Errorf("%s changed while it was read; load it again when no program writes to it", file)
		}
	}
	return nil
}

// unchanged yields the items of files, and a final error if the files have changed meanwhile.
func unchanged[T any](all iter.Seq2[T, error], v versions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range all {
			if !yield(x, err) || err != nil {
				return
			}
		}
		if err := v.check(); err != nil {
			var none T
			yield(none, err)
		}
	}
}
