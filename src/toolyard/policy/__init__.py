"""The pure function from what is attempted (`Action`) to the answer (`Decision`). Touches no disk, no clock."""
