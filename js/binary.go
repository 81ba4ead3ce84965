package js

import (
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// MarshalBinary returns v in the form in which values cross, without the
// budget of a runtime: for a journal or a digest. Equal values with their
// properties in the same order have the same bytes. The error is a
// *ConvertError, for a value that is too large.
func (v Value) MarshalBinary() ([]byte, error) {
	encoded, err := wire.Encode(v.wire(), wire.Budget{})
	if err != nil {
		return nil, asFault(err).at(v.root())
	}
	return encoded, nil
}

// UnmarshalBinary sets v to what MarshalBinary wrote. The bytes may be anybody's:
// what is not exactly such a form is refused, within the bounds of a value.
func (v *Value) UnmarshalBinary(data []byte) error {
	made, err := decodeValue("", append(wire.Value(nil), data...), wire.Budget{})
	if err != nil {
		return err
	}
	*v = made
	return nil
}
