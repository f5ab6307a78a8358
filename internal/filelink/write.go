package filelink

import (
	"errors"
	"io/fs"
	"os"
)

// IsReplaced reports whether writing a path replaces what it names, or makes it: a pipe or a device is
// written to.
func IsReplaced(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// Replace writes a file beside, and renames it.
func Replace(path string, text []byte) error {
	path, err := Target(path)
	if err != nil {
		return err
	}
	beside := path + ".new"
	if err := os.WriteFile(beside, text, 0o666); err != nil {
		os.Remove(beside)
		return NameError(err, path)
	}
	return os.Rename(beside, path)
}

// Append adds a text to the end of a file, or leaves it as it was.
func Append(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Write(text)
	}
	if err != nil && info != nil && info.Mode().IsRegular() {
		err = errors.Join(err, file.Truncate(info.Size()))
	}
	return errors.Join(err, file.Close())
}

// NameError gives an error the name under which the user knows a file, which is written under another.
func NameError(err error, path string) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		where.Path = path
	}
	return err
}
