package filelink

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckWritable tries what a write of the file will do: it creates a file beside it, and looks up its name.
func CheckWritable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	if !IsReplaced(path) {
		return nil
	}
	path, err := Target(path)
	if err != nil {
		return SystemError(err)
	}
	// A killed process leaves a file that the next one replaces and removes.
	folder, name := filepath.Dir(path), filepath.Base(path)
	beside, err := os.Create(filepath.Join(folder, fmt.Sprintf(".try-%08x", crc32.ChecksumIEEE([]byte(name)))))
	if err != nil {
		return fmt.Errorf("folder %s: %w", folder, SystemError(err))
	}
	if err := errors.Join(beside.Close(), os.RemoveAll(beside.Name())); err != nil {
		return err
	}
	// A file with the final name would be an empty output if the process were killed now.
	if _, err := os.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return SystemError(err)
	}
	return nil
}

// SystemError removes file names from an error.
func SystemError(err error) error {
	var where *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &where):
		return where.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
