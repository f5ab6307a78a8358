package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/internal/filelink"
)

type outputFile struct {
	path string
	data []byte
}

// writeFiles writes all files or none, so that an interrupted run leaves no half-written text behind.
func writeFiles(files []outputFile) error {
	var pending []*filelink.Pending
	defer func() {
		for _, f := range pending {
			f.Discard()
		}
	}()
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return fmt.Errorf("making the directory of %s: %w", f.path, err)
		}
		p, err := filelink.Pend(f.path, func(w io.Writer) error {
			_, err := w.Write(f.data)
			return err
		})
		if err != nil {
			return err
		}
		pending = append(pending, p)
	}
	return filelink.CommitAll(pending)
}
