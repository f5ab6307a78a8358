package main

import (
	"fmt"
	"os"
	"path/filepath"
)

type outputFile struct {
	path string
	data []byte
}

// writeFiles writes every file beside its name first and renames at the end,
// so that an interrupted run leaves no half-written text behind.
func writeFiles(files []outputFile) error {
	temps := make([]string, 0, len(files))
	defer func() {
		for _, temp := range temps {
			os.Remove(temp) // fails for those renamed, which is fine
		}
	}()
	for _, f := range files {
		temp := f.path + ".tmp"
		temps = append(temps, temp)
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return fmt.Errorf("making the directory of %s: %w", f.path, err)
		}
		if err := os.WriteFile(temp, f.data, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", f.path, err)
		}
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.path); err != nil {
			return fmt.Errorf("writing %s: %w", f.path, err)
		}
	}
	return nil
}
