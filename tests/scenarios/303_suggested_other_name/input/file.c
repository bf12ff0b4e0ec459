	int count = read_count(stream);
	if (count < 0)
		return -1;
	process(count);
