module guest

go 1.19
