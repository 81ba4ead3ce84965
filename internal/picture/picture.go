// Package picture tells what is a picture that can be shown: by decoding it to its end,
// and never by its name or by what it says of itself.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"

	"golang.org/x/image/webp"
)

// Bounds of pictures.
const (
	// MaxPixels is a good budget for what is decoded for one answer: all frames of all
	// pictures.
	MaxPixels = 16 << 20
	// MaxFile is the longest file that is looked at.
	MaxFile   = 8 << 20
	maxSide   = 16 << 10
	maxFrames = 1000
)

var errNoImage = errors.New("is no picture of a kind that is shown")

// kind is one kind of picture. whole walks over its parts without decoding them:
// it tells how many pixels all frames have, and refuses a file that has something
// behind the picture's end, which could be of another kind.
type kind struct {
	mime   string
	is     func([]byte) bool
	whole  func(b []byte, pixels int64) error
	config func([]byte) (image.Config, error)
	decode func([]byte) error
}

var kinds = []kind{
	{"image/png", func(b []byte) bool { return bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) }, wholePNG,
		func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) error { _, err := png.Decode(bytes.NewReader(b)); return err }},
	{"image/jpeg", func(b []byte) bool { return bytes.HasPrefix(b, []byte("\xff\xd8\xff")) }, wholeJPEG,
		func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) error { _, err := jpeg.Decode(bytes.NewReader(b)); return err }},
	{"image/gif", func(b []byte) bool {
		return bytes.HasPrefix(b, []byte("GIF87a")) || bytes.HasPrefix(b, []byte("GIF89a"))
	}, wholeGIF,
		func(b []byte) (image.Config, error) { return gif.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) error { _, err := gif.DecodeAll(bytes.NewReader(b)); return err }},
	{"image/webp", func(b []byte) bool {
		return len(b) > 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP"
	}, wholeWebP,
		func(b []byte) (image.Config, error) { return webp.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) error { _, err := webp.Decode(bytes.NewReader(b)); return err }},
}

// Begins tells whether a file begins as one of them does. That proves nothing.
func Begins(b []byte) bool { return slices.ContainsFunc(kinds, func(k kind) bool { return k.is(b) }) }

// Prove returns the media type of a picture, image/png, image/jpeg, image/gif or
// image/webp, told by its bytes alone, after it was decoded to its last pixel. pixels is
// what may still be decoded, and is lowered. What is none, is an animated PNG, or has
// something behind its end, is an error.
func Prove(b []byte, pixels *int64) (mime string, err error) {
	defer func() {
		if p := recover(); p != nil { // of a decoder
			mime, err = "", fmt.Errorf("cannot be decoded: %v", p)
		}
	}()
	for _, k := range kinds {
		if !k.is(b) {
			continue
		}
		if len(b) > MaxFile {
			return "", errors.New("is too large to be shown")
		}
		c, err := k.config(b)
		if err != nil {
			return "", err
		}
		n := int64(c.Width) * int64(c.Height)
		if c.Width <= 0 || c.Height <= 0 || c.Width > maxSide || c.Height > maxSide || n > *pixels {
			return "", fmt.Errorf("has too many pixels: %d × %d", c.Width, c.Height)
		}
		if err := k.whole(b, *pixels); err != nil {
			return "", err
		}
		*pixels -= n
		if err := k.decode(b); err != nil {
			return "", err
		}
		return k.mime, nil
	}
	return "", errNoImage
}

var errBehind = errors.New("has something behind its end")

// wholePNG walks the chunks. An animation is refused, since its further frames are
// not decoded. See https://www.w3.org/TR/png-3/.
func wholePNG(b []byte, _ int64) error {
	for p := 8; len(b)-p >= 12; {
		n := int64(binary.BigEndian.Uint32(b[p:]))
		name := string(b[p+4 : p+8])
		if n > int64(len(b)-p-12) {
			return errors.New("ends within a part")
		}
		p += 12 + int(n)
		switch name {
		case "acTL", "fcTL", "fdAT":
			return errors.New("is an animation")
		case "IEND":
			if p != len(b) {
				return errBehind
			}
			return nil
		}
	}
	return errors.New("has no end")
}

// wholeJPEG walks the segments and, within a scan, to the next marker. See ITU-T T.81,
// annex B.
func wholeJPEG(b []byte, _ int64) error {
	for p := 2; p+1 < len(b); {
		if b[p] != 0xff {
			p++ // entropy-coded data
			continue
		}
		switch m := b[p+1]; {
		case m == 0xff:
			p++ // fill
		case m == 0, m >= 0xd0 && m <= 0xd7, m == 1:
			p += 2 // a byte of data, or a marker without a segment
		case m == 0xd9:
			if p+2 != len(b) {
				return errBehind
			}
			return nil
		case m == 0xd8:
			return errors.New("has a second beginning")
		default:
			if p+4 > len(b) {
				return errors.New("ends within a part")
			}
			p += 2 + int(binary.BigEndian.Uint16(b[p+2:]))
		}
	}
	return errors.New("has no end")
}

// wholeGIF walks the blocks and counts the pixels of all frames, which a decoder
// holds at once. See https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
func wholeGIF(b []byte, pixels int64) error {
	r := &gifWalk{b: b, p: 6}
	table := func(flags byte) {
		if flags&0x80 != 0 {
			r.skip(3 << (flags&7 + 1))
		}
	}
	r.skip(4)
	flags := r.byte()
	r.skip(2)
	table(flags)
	for frames := 0; ; {
		switch kind := r.byte(); {
		case r.bad:
			return errors.New("ends within a part")
		case kind == 0x3b:
			if r.p != len(b) {
				return errBehind
			}
			return nil
		case kind == 0x21:
			r.skip(1)
			r.blocks()
		case kind == 0x2c:
			r.skip(4)
			w, h := int64(r.byte())|int64(r.byte())<<8, int64(r.byte())|int64(r.byte())<<8
			table(r.byte())
			r.skip(1)
			r.blocks()
			frames++
			if pixels -= w * h; pixels < 0 || frames > maxFrames {
				return errors.New("has too many frames")
			}
		default:
			return errors.New("has an unknown part")
		}
	}
}

type gifWalk struct {
	b   []byte
	p   int
	bad bool
}

func (r *gifWalk) byte() byte {
	if r.p >= len(r.b) {
		r.bad = true
		return 0
	}
	r.p++
	return r.b[r.p-1]
}

func (r *gifWalk) skip(n int) {
	if r.p += n; r.p > len(r.b) {
		r.p, r.bad = len(r.b), true
	}
}

// blocks skips sub-blocks up to the empty one.
func (r *gifWalk) blocks() {
	for n := r.byte(); n > 0 && !r.bad; n = r.byte() {
		r.skip(int(n))
	}
}

// wholeWebP compares the length that the file says with its own. See RFC 9649.
func wholeWebP(b []byte, _ int64) error {
	if n := int64(binary.LittleEndian.Uint32(b[4:])) + 8; n != int64(len(b)) {
		return errBehind
	}
	return nil
}
