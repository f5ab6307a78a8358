package data

import (
	"fmt"
	"iter"
	"os"
	"time"
)

// versions identify the contents of files, without reading them.
type versions map[string]version

type version struct {
	size     int64
	modified time.Time
}

// versionsOf looks at regular files; what else there is has no contents that stay.
func versionsOf(files []string) versions {
	v := versions{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			v[file] = version{info.Size(), info.ModTime()}
		}
	}
	return v
}

// check demands that the files have not changed since: samples would be of none of their versions, and a cache would
// keep them under the hash of another one.
func (v versions) check() error {
	for file, before := range v {
		if info, err := os.Stat(file); err != nil || info.Size() != before.size || !info.ModTime().Equal(before.modified) {
			return fmt.Errorf("%s was changed while it was read; load it again when nothing writes it", file)
		}
	}
	return nil
}

// unchanged yields the items of files, and an error at the end if the files have changed meanwhile.
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
