package filelink

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckWritable does what writing the file will: it makes a file beside it, and looks up
// its name.
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
	// What a killed process left is replaced and removed by the next.
	folder, name := filepath.Dir(path), filepath.Base(path)
	beside, err := os.Create(filepath.Join(folder, fmt.Sprintf(".try-%08x", crc32.ChecksumIEEE([]byte(name)))))
	if err != nil {
		return fmt.Errorf("folder %s: %w", folder, SystemError(err))
	}
	if err := errors.Join(beside.Close(), os.RemoveAll(beside.Name())); err != nil {
		return err
	}
	// A file of the name itself would be an empty output, if the process were killed now.
	if _, err := os.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return SystemError(err)
	}
	return nil
}

// SystemError leaves out the names of files.
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
