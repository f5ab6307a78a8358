package data

import (
	"io"
	"strings"
	"sync/atomic"
)

// TextFiles reads files one after another as one text. Each is open only while it is read. It
// decompresses gzip and skips byte order marks.
func TextFiles(paths ...string) io.Reader {
	return &textFiles{paths: paths, count: new(atomic.Int64)}
}

type textFiles struct {
	paths []string
	file  *file
	count *atomic.Int64 // counts the bytes read

	begins []int64 // number of bytes of text before each file that was opened
	given  int64   // number of bytes of text that were read
}

func (t *textFiles) Read(p []byte) (int, error) {
	for {
		if t.file == nil {
			if len(t.paths) == 0 {
				return 0, io.EOF
			}
			f, err := open(t.paths[0], strings.NewReader(""), t.count)
			if err != nil {
				return 0, err
			}
			t.file, t.paths, t.begins = f, t.paths[1:], append(t.begins, t.given)
		}
		n, err := t.file.r.Read(p)
		t.given += int64(n)
		if err == nil || n > 0 {
			return n, nil
		}
		t.file.closer.Close()
		if err != io.EOF {
			return 0, t.file.broken(0, err)
		}
		t.file = nil
	}
}
