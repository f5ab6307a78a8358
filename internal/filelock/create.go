package filelock

import (
	"errors"
	"os"
)

// Create opens or creates the file at a path and locks it. [Remove] undoes that. A file left by a killed
// process is locked by the next Create. The error is ErrLocked if another open file has the lock. On systems
// without locks the file is not locked.
func Create(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return nil, err
		}
		if err := Lock(file); err == ErrLocked {
			file.Close()
			return nil, err
		}
		if IsAt(path, file) {
			return file, nil
		}
		file.Close() // the previous owner has removed it meanwhile
	}
}

// Remove removes a file that Create has locked, and then unlocks it: whoever opened it before sees that it is
// gone.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}

// RemoveAbandoned removes a file that is not locked: its owner has died.
func RemoveAbandoned(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	if Lock(file) == nil && IsAt(path, file) {
		os.Remove(path)
	}
	file.Close()
}

// IsAt reports whether the path still leads to the open file.
func IsAt(path string, file *os.File) bool {
	at, err := os.Stat(path)
	info, err2 := file.Stat()
	return err == nil && err2 == nil && os.SameFile(at, info)
}
