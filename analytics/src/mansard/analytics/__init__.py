"""From trials and scores to rooflines, predictions and one report. Importing this is cheap."""
