package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxThreads is what a CPU backend takes.
const maxThreads = 512

// CheckThreads refuses a --threads that no backend takes; 0 stands for a number
// that suits the machine.
func CheckThreads(n int) error {
	if n < 0 || n > maxThreads {
		return fmt.Errorf("--threads %d: it takes 1 to %d, or 0 for a number that suits the machine", n, maxThreads)
	}
	return nil
}

// CheckWritable tries to make a file beside path, before the work whose result
// goes there.
func CheckWritable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe or a device
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".try-*")
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			return fmt.Errorf("folder %s: %w", filepath.Dir(path), where.Err)
		}
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
